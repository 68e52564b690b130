//! PEM sections.

use pem::{EncodeConfig, LineEnding, Pem};

/// Returns one PEM section (RFC 7468), lines of 64 characters.
pub fn pem(label: &str, der: &[u8]) -> String {
    let form = EncodeConfig::new().set_line_ending(LineEnding::LF);
    pem::encode_config(&Pem::new(label, der), form)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pem_breaks_lines_after_64_characters() {
        assert_eq!(
            pem("X", &[0; 49]),
            format!("-----BEGIN X-----\n{}\nAA==\n-----END X-----\n", "A".repeat(64))
        );
    }
}
