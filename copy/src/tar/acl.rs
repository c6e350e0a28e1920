//! ACLs as the text that GNU tar and star write: `user:1000:rwx`, a line or a
//! comma between entries. Linux has them as binary extended attributes.

const VERSION: u32 = 2;
const NO_ID: u32 = u32::MAX;
/// Tags, their words, and whether an id belongs to them.
const TAGS: [(u16, &str, bool); 6] = [
    (0x01, "user", false),
    (0x02, "user", true),
    (0x04, "group", false),
    (0x08, "group", true),
    (0x10, "mask", false),
    (0x20, "other", false),
];

/// None: it is not what Linux stores.
pub fn to_text(binary: &[u8]) -> Option<String> {
    let (version, entries) = binary.split_at_checked(4)?;
    if version != VERSION.to_le_bytes() || entries.len() % 8 != 0 {
        return None;
    }
    let mut text = String::new();
    for entry in entries.chunks_exact(8) {
        let tag = u16::from_le_bytes([entry[0], entry[1]]);
        let (_, word, has_id) = TAGS.iter().find(|(t, _, _)| *t == tag)?;
        let id = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
        let id = if *has_id {
            id.to_string()
        } else {
            String::new()
        };
        let bit = |mask, letter| if entry[2] & mask != 0 { letter } else { '-' };
        let (r, w, x) = (bit(4, 'r'), bit(2, 'w'), bit(1, 'x'));
        text.push_str(&format!("{word}:{id}:{r}{w}{x}\n"));
    }
    Some(text)
}

/// None: it makes no sense, or has names of users, which mean nothing here.
pub fn to_binary(text: &str) -> Option<Vec<u8>> {
    let mut entries = Vec::new();
    for line in text.split(['\n', ',']) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let mut words = line.split(':');
        let (word, id, bits) = (words.next()?, words.next()?, words.next()?);
        // star puts the number behind the name.
        let number = words.next().unwrap_or(id);
        let word = match word {
            "u" => "user",
            "g" => "group",
            "m" => "mask",
            "o" => "other",
            word => word,
        };
        let has_id = !id.is_empty();
        let tag = TAGS
            .iter()
            .find(|(_, w, with)| *w == word && *with == has_id)?
            .0;
        let id = if has_id { number.parse().ok()? } else { NO_ID };
        let bit = |(letter, value)| if bits.contains(letter) { value } else { 0u16 };
        let bits: u16 = [('r', 4), ('w', 2), ('x', 1)].map(bit).iter().sum();
        entries.push((tag, id, bits));
    }
    if entries.is_empty() {
        return None;
    }
    entries.sort_unstable();
    let mut binary = VERSION.to_le_bytes().to_vec();
    for (tag, id, bits) in entries {
        binary.extend_from_slice(&tag.to_le_bytes());
        binary.extend_from_slice(&bits.to_le_bytes());
        binary.extend_from_slice(&u32::to_le_bytes(id));
    }
    Some(binary)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_binary_are_the_same_list() {
        let text = "user::rw-\nuser:1000:r--\ngroup::r--\ngroup:7:rwx\nmask::rwx\nother::---\n";
        let binary = to_binary(text).unwrap();
        assert_eq!(to_text(&binary).as_deref(), Some(text));
        let star = "u::rw-,g:root:rwx:7,user:joe:r--:1000,group::r--,mask::rwx,other::---";
        assert_eq!(to_binary(star), Some(binary));
    }

    #[test]
    fn nonsense_is_nothing() {
        for text in ["", "user", "user:joe:r--", "nobody::rwx", "mask:5:rwx"] {
            assert_eq!(to_binary(text), None, "{text}");
        }
        for binary in [&b""[..], b"\x02\0\0", b"\x03\0\0\0", b"\x02\0\0\0\x01\0"] {
            assert_eq!(to_text(binary), None, "{binary:?}");
        }
    }
}
