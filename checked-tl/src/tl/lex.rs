//! Text to tokens.

use super::Mistake;

/// A token, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub at: usize,
    /// Bytes of it in the source.
    pub length: usize,
    pub kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number without a sign, up to 2^63.
    Int(u64),
    Text(Vec<u8>),
    /// A name or a word of the language.
    Word(String),
    /// Punctuation, the longest that there is.
    Mark(&'static str),
    /// `//` and what follows on its line: for those who lay out a program.
    Comment,
    End,
}

const MARKS: [&str; 36] = [
    "..", "::", "=>", "==", "!=", "<=", ">=", "<<", ">>", "&&", "||", "{", "}", "(", ")", "[", "]",
    ",", ";", ":", ".", "=", "<", ">", "+", "-", "*", "/", "%", "&", "|", "^", "!", "~", "?", "@",
];

/// All tokens of a text, comments too.
pub fn lex(source: &str) -> Result<Vec<Token>, Mistake> {
    let bytes = source.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        if byte.is_ascii_whitespace() {
            at += 1;
            continue;
        }
        let (kind, length) = if source[at..].starts_with("//") {
            let end = source[at..].find('\n').unwrap_or(bytes.len() - at);
            (Kind::Comment, end)
        } else if byte.is_ascii_digit() {
            number(source, at)?
        } else if byte.is_ascii_alphabetic() || byte == b'_' {
            let is = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
            let length = bytes[at..].iter().take_while(|b| is(b)).count();
            (Kind::Word(source[at..at + length].into()), length)
        } else if byte == b'"' {
            let (text, length) = quoted(bytes, at, b'"')?;
            (Kind::Text(text), length)
        } else if byte == b'\'' {
            let (text, length) = quoted(bytes, at, b'\'')?;
            match text.as_slice() {
                [one] => (Kind::Int((*one).into()), length),
                _ => return Err(Mistake::new(at, "between ' and ' there is one byte")),
            }
        } else {
            let found = MARKS.iter().find(|mark| source[at..].starts_with(**mark));
            let Some(mark) = found else {
                let c = source[at..].chars().next().unwrap_or(' ');
                return Err(Mistake::new(at, format!("{c:?} means nothing here")));
            };
            (Kind::Mark(mark), mark.len())
        };
        tokens.push(Token { at, length, kind });
        at += length;
    }
    tokens.push(Token {
        at: source.len(),
        length: 0,
        kind: Kind::End,
    });
    Ok(tokens)
}

fn number(source: &str, at: usize) -> Result<(Kind, usize), Mistake> {
    let is = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
    let text: String = source[at..].chars().take_while(is).collect();
    let digits = text.replace('_', "");
    let value = match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => digits.parse(),
    };
    match value {
        Ok(value) if value <= 1 << 63 => Ok((Kind::Int(value), text.len())),
        Ok(_) => Err(Mistake::new(at, "a number has 64 bits with its sign")),
        Err(_) => Err(Mistake::new(at, format!("{text:?} is no number"))),
    }
}

/// What is between quotes, and bytes of all of it.
fn quoted(bytes: &[u8], at: usize, quote: u8) -> Result<(Vec<u8>, usize), Mistake> {
    let mut text = Vec::new();
    let mut i = at + 1;
    loop {
        let (byte, length) = match &bytes[i.min(bytes.len())..] {
            [b'\n', ..] | [] => return Err(Mistake::new(at, "the quote does not end in its line")),
            [byte, ..] if *byte == quote => return Ok((text, i + 1 - at)),
            [b'\\', b'n', ..] => (b'\n', 2),
            [b'\\', b't', ..] => (b'\t', 2),
            [b'\\', b'0', ..] => (0, 2),
            [b'\\', byte @ (b'\\' | b'"' | b'\''), ..] => (*byte, 2),
            [b'\\', ..] => {
                return Err(Mistake::new(i, "\\ stands before n, t, 0, \\ and quotes"));
            }
            [byte, ..] => (*byte, 1),
        };
        text.push(byte);
        i += length;
    }
}
