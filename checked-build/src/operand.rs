//! Operands as GNU as writes them for x86-64.

/// An operand.
#[derive(Debug, PartialEq, Eq)]
pub enum Operand<'a> {
    Register(&'a str),
    Immediate,
    /// What stands before the bracket, the base, the index and its scale.
    Memory {
        displacement: &'a str,
        base: Option<&'a str>,
        index: Option<(&'a str, &'a str)>,
    },
}

/// At commas outside of brackets.
pub fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (i, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..i].trim());
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

/// What an operand is.
pub fn parse(text: &str) -> Operand<'_> {
    if text.starts_with('$') {
        return Operand::Immediate;
    }
    if text.starts_with('%') && !text.contains([':', '(']) {
        return Operand::Register(text);
    }
    let Some((displacement, inner)) = text.strip_suffix(')').and_then(|t| t.rsplit_once('('))
    else {
        return Operand::Memory {
            displacement: text,
            base: None,
            index: None,
        };
    };
    let mut parts = inner.split(',').map(str::trim);
    let base = parts.next().filter(|base| !base.is_empty());
    let index = parts.next().filter(|index| !index.is_empty());
    let scale = parts.next().unwrap_or("1");
    Operand::Memory {
        displacement,
        base,
        index: index.map(|index| (index, scale)),
    }
}

/// The low 32 bits of a register of 64.
pub fn half(name: &str) -> Option<String> {
    let rest = name.strip_prefix("%r")?;
    match rest.as_bytes() {
        [b'0'..=b'9', ..] => Some(format!("%r{}d", rest.trim_end_matches('d'))),
        [_, _] => Some(format!("%e{rest}")),
        _ => None,
    }
}
