//! Sizes, as people write them.

/// A number of bytes with an optional K, M, G or T (powers of 1024), as every option of the
/// `tane` command has it.
pub fn parse_size(text: &str) -> std::result::Result<u64, String> {
    let upper = text.to_ascii_uppercase();
    let upper = upper
        .strip_suffix("IB")
        .or(upper.strip_suffix('B'))
        .unwrap_or(&upper);
    let (digits, shift) = match upper.char_indices().last() {
        Some((i, 'K')) => (&upper[..i], 10),
        Some((i, 'M')) => (&upper[..i], 20),
        Some((i, 'G')) => (&upper[..i], 30),
        Some((i, 'T')) => (&upper[..i], 40),
        _ => (upper, 0),
    };
    let number: Option<u64> = digits.parse().ok();
    let size = number.and_then(|n| n.checked_mul(1 << shift));
    size.ok_or_else(|| "not a size: write a number and K, M, G or T".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_suffixes() {
        assert_eq!(parse_size("512"), Ok(512));
        assert_eq!(parse_size("64k"), Ok(65536));
        assert_eq!(parse_size("256MiB"), Ok(256 << 20));
        assert_eq!(parse_size("1G"), Ok(1 << 30));
        assert!(parse_size("much").is_err());
        assert!(parse_size("99999999999T").is_err());
    }
}
