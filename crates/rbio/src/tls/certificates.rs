//! Authorities and certificates for tests, made by openssl.
#![allow(dead_code)]

use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::Command;

/// A folder with certificates (`NAME.crt`) and keys (`NAME.key`).
pub struct Certificates {
    dir: tempfile::TempDir,
}

/// What is unusual about a certificate.
#[derive(Clone, Copy)]
pub struct Of<'a> {
    pub authority: &'a str,
    /// As openssl's subjectAltName.
    pub names: &'a str,
    /// From when to when: `YYYYMMDDHHMMSSZ`.
    pub valid: (&'a str, &'a str),
    pub usage: &'a str,
    /// Whether it may sign others, as an authority below that one.
    pub signs: bool,
}

/// Of the authority `ca`, for this machine, valid, and for both sides.
pub const GOOD: Of<'_> = Of {
    authority: "ca",
    names: "DNS:localhost,IP:127.0.0.1,IP:::1",
    valid: ("20200101000000Z", "20991231000000Z"),
    usage: "serverAuth,clientAuth",
    signs: false,
};

const CONFIG: &str = "[ca]\ndefault_ca = d\n[d]\ndatabase = index\nserial = serial\nnew_certs_dir = .\ndefault_md = sha256\n\
                      unique_subject = no\npolicy = p\n[p]\ncommonName = supplied\n";

impl Certificates {
    /// With the authorities `ca` and `other-ca`. `None`, with a line saying so: openssl is not there.
    pub fn make() -> Option<Self> {
        if let Err(error) = Command::new("openssl").arg("version").output()
            && error.kind() == ErrorKind::NotFound
        {
            // The CI counts lines that begin so.
            println!("skipped: openssl could not be started ({error})");
            return None;
        }
        let made = Self { dir: tempfile::tempdir().expect("a folder") };
        for (name, text) in [("config", CONFIG), ("index", ""), ("serial", "1000\n")] {
            std::fs::write(made.path(name), text).expect("a file");
        }
        made.authority("ca", "ca");
        made.authority("other-ca", "other-ca");
        Some(made)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A certificate and its key.
    pub fn add(&self, name: &str, of: Of<'_>) {
        let (key, csr, crt, ext) =
            (format!("{name}.key"), format!("{name}.csr"), format!("{name}.crt"), format!("{name}.ext"));
        let names = if of.names.is_empty() { String::new() } else { format!("subjectAltName={}\n", of.names) };
        let signs = if of.signs { "basicConstraints=critical,CA:TRUE\n" } else { "" };
        std::fs::write(self.path(&ext), format!("{signs}{names}extendedKeyUsage={}\n", of.usage)).expect("a file");
        let subject = format!("/CN={name}");
        let (ca, ca_key) = (format!("{}.crt", of.authority), format!("{}.key", of.authority));
        let (from, to) = of.valid;
        self.openssl(
            &["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"],
            &["-subj", &subject, "-keyout", &key, "-out", &csr],
        );
        self.openssl(
            &["ca", "-batch", "-notext", "-config", "config", "-in", &csr, "-out", &crt],
            &["-cert", &ca, "-keyfile", &ca_key, "-extfile", &ext, "-startdate", from, "-enddate", to],
        );
    }

    /// An authority in the files of `name`, which calls itself `common_name`.
    pub fn authority(&self, name: &str, common_name: &str) {
        let (subject, key, crt) = (format!("/CN={common_name}"), format!("{name}.key"), format!("{name}.crt"));
        self.openssl(
            &["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"],
            &["-days", "2", "-subj", &subject, "-keyout", &key, "-out", &crt],
        );
    }

    /// It is there, so what it cannot do is a failure of the test.
    fn openssl(&self, args: &[&str], more: &[&str]) {
        let output = Command::new("openssl").current_dir(self.dir.path()).args(args).args(more).output();
        let output = output.expect("openssl is there");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "openssl {} {}: {said}", args.join(" "), more.join(" "));
    }
}
