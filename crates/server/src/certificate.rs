//! Who a client's certificate says that it is.

use x509_certificate::X509Certificate;

/// The first common name of a certificate's subject; `None` if it has none that can be a user's.
///
/// A name with a zero byte is none: PostgreSQL refuses these, for what compares them up to there sees another.
pub fn common_name(der: &[u8]) -> Option<String> {
    let name = X509Certificate::from_der(der).ok()?.subject_common_name()?;
    (!name.is_empty() && !name.contains('\0')).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_certificate_have_no_name() {
        assert_eq!(common_name(b""), None);
        assert_eq!(common_name(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff, 0x00]), None);
    }
}
