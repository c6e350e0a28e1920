//! What a volume of dm-verity is to be checked by.

use crate::size::parse_size;
use std::str::FromStr;

/// A root hash of dm-verity, and where its tree is. As text, for [`FromStr`], it is what
/// `tane --verity` takes: the digits that veritysetup(8) prints, and if the hashes are
/// behind the data `,offset=BYTES`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verity {
    /// The hash.
    pub root: Vec<u8>,
    /// Where the hashes are behind the data they are of, in bytes; None: on a volume of
    /// their own.
    pub offset: Option<u64>,
}

impl FromStr for Verity {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Verity, String> {
        let (hash, offset) = match text.split_once(",offset=") {
            Some((hash, offset)) => (hash, Some(parse_size(offset)?)),
            None => (text, None),
        };
        let pair = |i: usize| u8::from_str_radix(hash.get(i..i + 2)?, 16).ok();
        let root: Option<Vec<u8>> = (0..hash.len()).step_by(2).map(pair).collect();
        match root.filter(|root| !root.is_empty()) {
            Some(root) => Ok(Verity { root, offset }),
            None => Err("not a root hash: write the digits that veritysetup format printed".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_hash_is_pairs_of_digits() {
        let root = vec![0x0a, 0xff];
        let (text, at) = ("0aFF,offset=4K", Some(4096));
        assert_eq!(text.parse(), Ok(Verity { root, offset: at }));
        for wrong in ["", "0a0", "xy", "0a,offset=", "é"] {
            assert!(wrong.parse::<Verity>().is_err(), "{wrong}");
        }
    }
}
