//! An authority, a server's certificate and clients' certificates, made by openssl.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::Command;

pub struct Certificates {
    dir: tempfile::TempDir,
}

impl Certificates {
    /// `ca.crt`, `server.crt` and `.key` (localhost, 127.0.0.1), and the same for the clients `postgres` and `other`, and
    /// for `stranger`, whom another authority has signed. `None`, with a line saying so: openssl is not there.
    pub fn make() -> Option<Self> {
        if let Err(error) = Command::new("openssl").arg("version").output()
            && error.kind() == ErrorKind::NotFound
        {
            // The CI counts lines that begin so.
            println!("skipped: openssl could not be started ({error})");
            return None;
        }
        let made = Self { dir: tempfile::tempdir().expect("temp folder") };
        made.authority("ca");
        made.authority("other-ca");
        made.signed("server", "localhost", "ca");
        made.signed("postgres", "postgres", "ca");
        made.signed("other", "other", "ca");
        made.signed("stranger", "postgres", "other-ca");
        Some(made)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// It is there, so what it cannot do is a failure of the test.
    fn openssl(&self, args: &[&str]) {
        let output = Command::new("openssl").current_dir(self.dir.path()).args(args).output();
        let output = output.expect("openssl is there");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "openssl {}: {said}", args.join(" "));
    }

    fn authority(&self, name: &str) {
        let subject = format!("/CN={name}");
        let (key, crt) = (format!("{name}.key"), format!("{name}.crt"));
        self.openssl(&[
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
            "-subj",
            &subject,
            "-keyout",
            &key,
            "-out",
            &crt,
        ]);
    }

    fn signed(&self, name: &str, common_name: &str, authority: &str) {
        let (key, csr, crt, ext) =
            (format!("{name}.key"), format!("{name}.csr"), format!("{name}.crt"), format!("{name}.ext"));
        let subject = format!("/O=Test/CN={common_name}");
        let (ca, ca_key) = (format!("{authority}.crt"), format!("{authority}.key"));
        let more = "subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n";
        std::fs::write(self.path(&ext), more).expect("a file");
        self.openssl(&[
            "req",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-subj",
            &subject,
            "-keyout",
            &key,
            "-out",
            &csr,
        ]);
        self.openssl(&[
            "x509",
            "-req",
            "-in",
            &csr,
            "-CA",
            &ca,
            "-CAkey",
            &ca_key,
            "-CAcreateserial",
            "-days",
            "2",
            "-extfile",
            &ext,
            "-out",
            &crt,
        ]);
    }
}
