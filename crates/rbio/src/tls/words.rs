//! What is wrong, for people: "could not agree on encryption with NAME: " goes before it.

use rustls::{AlertDescription, CertificateError, Error};

use super::Fault;

/// Of the peer.
pub(crate) fn of(fault: &Fault) -> String {
    match fault {
        Fault::Io(error) => error.to_string(),
        Fault::Cut => "it has ended the connection without a closing notice".into(),
        Fault::Plain => {
            "it speaks without TLS, and this side with it: start both with --tier-tls-cert, or both without".into()
        }
        Fault::Tls(error) => of_tls(error),
    }
}

/// Of this side's own certificate; its file goes before it.
pub(crate) fn of_own(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(error) => certificate(error),
        error => format!("cannot be used: {error}"),
    }
}

fn of_tls(error: &Error) -> String {
    match error {
        Error::NoCertificatesPresented => "it has shown no certificate".into(),
        Error::InvalidCertificate(error) => format!("its certificate {}", certificate(error)),
        Error::AlertReceived(alert) => of_alert(*alert),
        Error::InvalidMessage(what) => format!("what came is no TLS, or was damaged ({what:?})"),
        Error::DecryptError => {
            "what came was damaged on the way, or is not from it (a record cannot be decrypted)".into()
        }
        Error::PeerSentOversizedRecord => "it has sent a record that is too long".into(),
        Error::PeerIncompatible(what) => format!("it does not speak TLS 1.3 as this side does ({what:?})"),
        Error::NoApplicationProtocol => "it is another program, or a much other version of this one".into(),
        error => error.to_string(),
    }
}

fn certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::Expired => "has expired".into(),
        CertificateError::ExpiredContext { time, not_after } => {
            format!("has expired, {} ago", about(time.as_secs().saturating_sub(not_after.as_secs())))
        }
        CertificateError::NotValidYet => "is not valid yet".into(),
        CertificateError::NotValidYetContext { time, not_before } => {
            let left = about(not_before.as_secs().saturating_sub(time.as_secs()));
            format!("is not valid yet; by this machine's clock it is in {left}")
        }
        CertificateError::UnknownIssuer => "is of another authority than that in --tier-tls-ca".into(),
        // Authorities are found by their names: one that was made anew under the same one is found, and has another key.
        CertificateError::BadSignature => {
            "or a signature with it is not good: perhaps the authority that has signed it and the one of that \
             name in --tier-tls-ca have different keys"
                .into()
        }
        CertificateError::NotValidForName => "is for another name than that which was dialled".into(),
        CertificateError::NotValidForNameContext { expected, presented } => match presented.as_slice() {
            [] => format!("is for no name, and {} was dialled (it has no subjectAltName)", expected.to_str()),
            // It is the peer's text.
            names => {
                let names: Vec<_> =
                    names.iter().take(4).map(|name| name.chars().take(100).collect::<String>()).collect();
                format!("is for {}, and {} was dialled", names.join(", ").escape_debug(), expected.to_str())
            }
        },
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "may not be used so: its extendedKeyUsage must have both serverAuth and clientAuth".into()
        }
        error => format!("is refused: {error}"),
    }
}

/// What the peer says of this side.
fn of_alert(alert: AlertDescription) -> String {
    let why = match alert {
        AlertDescription::CertificateRequired => "it asks for a certificate, and this side has shown none",
        AlertDescription::CertificateExpired => "it refuses this side's certificate: expired, or not valid yet",
        AlertDescription::UnknownCA => "it refuses this side's certificate: of another authority than its own",
        AlertDescription::BadCertificate => {
            "it refuses this side's certificate: damaged, or for another name than was dialled"
        }
        AlertDescription::UnsupportedCertificate => {
            "it refuses this side's certificate: its extendedKeyUsage must have both serverAuth and clientAuth"
        }
        AlertDescription::CertificateRevoked => "it refuses this side's certificate: revoked",
        AlertDescription::CertificateUnknown | AlertDescription::AccessDenied => "it refuses this side's certificate",
        AlertDescription::ProtocolVersion => "it does not speak TLS 1.3",
        AlertDescription::NoApplicationProtocol => "it is another program, or a much other version of this one",
        AlertDescription::DecryptError => {
            "it refuses this side's certificate, or a signature with it: perhaps the authority of that name in its --tier-tls-ca has \
             another key"
        }
        AlertDescription::BadRecordMac => "what was sent to it was damaged on the way",
        other => return format!("it has ended the connection ({other:?})"),
    };
    why.to_owned()
}

/// A time in its largest unit.
fn about(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} minutes", seconds / 60),
        7200..172_800 => format!("{} hours", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}
