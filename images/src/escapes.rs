//! Signs in addresses that stand for others.

/// With `%40` and the like as what they mean.
pub(crate) fn decoded(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut all = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = text.get(at + 1..at + 3);
        let code = code.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (bytes[at], code) {
            (b'%', Some(byte)) => {
                all.push(byte);
                at += 3;
            }
            (byte, _) => {
                all.push(byte);
                at += 1;
            }
        }
    }
    all
}
