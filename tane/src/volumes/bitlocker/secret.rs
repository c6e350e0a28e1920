//! From what somebody knows, or has in a file, to a key.

use super::datum::{array, data, word, EXTERNAL, KEY};
use crate::table::guid;
use sha2::{Digest, Sha256};

/// How often the digest is taken of itself.
const ROUNDS: u64 = 1 << 20;
/// Longest password that Windows takes, in its characters.
const LONGEST: usize = 256;
/// Before the key in a file of a startup key: of the file, and of the key.
const FILE_HEAD: usize = 48;
const KEY_HEAD: usize = 24;

/// Make it slow to guess what the digest is of.
pub(super) fn stretch(known: [u8; 32], salt: [u8; 16]) -> [u8; 32] {
    // The last digest, that of the secret, the salt, the number of the round.
    let mut state = [0; 88];
    state[32..64].copy_from_slice(&known);
    state[64..80].copy_from_slice(&salt);
    for round in 0..ROUNDS {
        state[80..].copy_from_slice(&round.to_le_bytes());
        let digest = Sha256::digest(state);
        state[..32].copy_from_slice(&digest);
    }
    let mut key = [0; 32];
    key.copy_from_slice(&state[..32]);
    key
}

/// The digest of a password; None: it cannot be one.
pub(super) fn password(secret: &[u8]) -> Option<[u8; 32]> {
    let text = line(secret)?;
    let units: Vec<u16> = text.encode_utf16().take(LONGEST + 1).collect();
    let bytes: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
    let is_one = !units.is_empty() && units.len() <= LONGEST;
    is_one.then(|| Sha256::digest(Sha256::digest(bytes)).into())
}

/// The digest of the number that a recovery password is: eight groups of six digits, of
/// which each is eleven times one of two bytes. None: it is none.
pub(super) fn recovery_password(secret: &[u8]) -> Option<[u8; 32]> {
    let groups = groups(secret)?;
    let mut number = Vec::with_capacity(16);
    for group in groups {
        let part = u16::try_from(group / 11)
            .ok()
            .filter(|_| group.is_multiple_of(11))?;
        number.extend(part.to_le_bytes());
    }
    Some(Sha256::digest(number).into())
}

/// The number of the first group that is mistyped, from one; None: it is no recovery
/// password, or a good one.
pub(super) fn mistyped_group(secret: &[u8]) -> Option<usize> {
    let is_wrong = |group: &u32| !group.is_multiple_of(11) || group / 11 > u32::from(u16::MAX);
    Some(1 + groups(secret)?.iter().position(is_wrong)?)
}

fn groups(secret: &[u8]) -> Option<[u32; 8]> {
    let text = line(secret)?;
    let digits: Vec<u32> = text
        .chars()
        .filter(|c| !matches!(c, '-' | ' '))
        .map(|c| c.to_digit(10))
        .collect::<Option<_>>()?;
    let groups = digits.chunks(6);
    let groups = groups.map(|six| six.iter().fold(0, |number, digit| number * 10 + digit));
    let groups: Vec<u32> = groups.collect();
    groups.try_into().ok().filter(|_| digits.len() == 48)
}

/// Text of one line, without its end: a whole file is given as it is.
fn line(secret: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(secret).ok()?;
    let text = text.trim_end_matches(['\r', '\n']);
    (!text.contains('\n')).then_some(text)
}

/// The key in the file of a startup key, if it is that of the protector.
pub(super) fn startup_key(file: &[u8], protector: &str) -> Option<[u8; 32]> {
    let id = guid(file.get(16..32)?)?;
    let is_one = word(file, 0)? as usize == file.len() && word(file, 4)? == 1;
    if !is_one || !id.eq_ignore_ascii_case(protector) {
        return None;
    }
    let external = data(file.get(FILE_HEAD..)?)?;
    let external = external.iter().find(|datum| datum.kind == EXTERNAL)?;
    let parts = data(external.bytes.get(KEY_HEAD..)?)?;
    let key = parts.iter().find(|datum| datum.kind == KEY)?;
    array(key.bytes, 4)
}
