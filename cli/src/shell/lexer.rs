//! Splits text into commands and words, with the quotes of sh and bash's $'…'. Words
//! with *, ? or [ that is not quoted are patterns. There are no variables, pipes and
//! redirections: what would be one must be quoted.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use tane_copy::patterns::has_wildcards;

pub type Words = Vec<OsString>;

/// A word as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    pub text: OsString,
    /// With signs of a pattern that are not quoted: all of it, with \ before those that
    /// are.
    pub pattern: Option<Vec<u8>>,
}

/// Before a sign of a pattern that is not quoted. No name has one, and no text.
const SIGN: u8 = 0;
const SIGNS: &[u8] = b"*?[]\\";

impl Word {
    fn new(marked: Vec<u8>) -> Word {
        let text = without_signs(&marked);
        if text.len() == marked.len() {
            let text = OsString::from_vec(text);
            return Word {
                text,
                pattern: None,
            };
        }
        let mut pattern = Vec::new();
        let mut bytes = marked.into_iter();
        while let Some(byte) = bytes.next() {
            match byte {
                SIGN => pattern.extend(bytes.next()),
                byte if SIGNS.contains(&byte) => pattern.extend([b'\\', byte]),
                byte => pattern.push(byte),
            }
        }
        let is_one = pattern.split(|b| *b == b'/').any(has_wildcards);
        Word {
            text: OsString::from_vec(text),
            pattern: is_one.then_some(pattern),
        }
    }
}

fn without_signs(marked: &[u8]) -> Vec<u8> {
    marked.iter().copied().filter(|&b| b != SIGN).collect()
}

/// The commands of a text that ends with a line; None: it goes on in the next.
pub fn commands(text: &[u8]) -> Result<Option<Vec<Vec<Word>>>, String> {
    let mut scan = Scan::new(text);
    let mut commands = Vec::new();
    loop {
        let end = scan.piece()?;
        if end == End::Open {
            return Ok(None);
        }
        let words = shlex::bytes::split(&scan.piece).ok_or("a quote without its end")?;
        if !words.is_empty() {
            commands.push(words.into_iter().map(Word::new).collect());
        }
        if end == End::Text {
            return Ok(Some(commands));
        }
    }
}

/// The command at the end of a text that is being typed.
pub struct Typed {
    /// What is complete of it.
    pub words: Words,
    /// The last word, unquoted, and where it begins in the text.
    pub word: Vec<u8>,
    pub start: usize,
}

pub fn typed(text: &[u8]) -> Option<Typed> {
    let mut scan = Scan::new(text);
    while scan.piece().ok()? == End::Separator {}
    let start = scan.word_start;
    let command = scan.piece.get(..scan.piece_word_start)?;
    let words = shlex::bytes::split(command)?;
    let last = scan.piece.get(scan.piece_word_start..)?;
    // A quote that is still open is closed.
    let closings: [&[u8]; 3] = [b"", b"'", b"\""];
    let mut closed = closings.iter().map(|q| [last, q].concat());
    let word = closed.find_map(|w| shlex::bytes::split(&w))?;
    let words = words.iter().map(|word| without_signs(word));
    Some(Typed {
        words: words.map(OsString::from_vec).collect(),
        word: without_signs(&word.into_iter().next().unwrap_or_default()),
        start,
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// A semicolon or the end of a line.
    Separator,
    Text,
    /// Within a quote, or behind a backslash.
    Open,
}

struct Scan<'t> {
    text: &'t [u8],
    at: usize,
    /// The command at hand, in quotes that shlex knows.
    piece: Vec<u8>,
    /// Where its last word begins, in the text and in the piece.
    word_start: usize,
    piece_word_start: usize,
}

impl<'t> Scan<'t> {
    fn new(text: &'t [u8]) -> Self {
        Scan {
            text,
            at: 0,
            piece: Vec::new(),
            word_start: 0,
            piece_word_start: 0,
        }
    }

    /// Goes to the end of the next command.
    fn piece(&mut self) -> Result<End, String> {
        self.piece.clear();
        self.begin_word();
        while let Some(&c) = self.text.get(self.at) {
            let next = self.text.get(self.at + 1).copied();
            let begins = self.piece.len() == self.piece_word_start;
            let open = match (c, next) {
                (b';' | b'\n', _) => {
                    self.at += 1;
                    return Ok(End::Separator);
                }
                (b'#', _) if begins => {
                    let rest = &self.text[self.at..];
                    let line = rest.iter().position(|&b| b == b'\n');
                    self.at += line.unwrap_or(rest.len());
                    false
                }
                (b' ' | b'\t' | b'\r', _) => {
                    self.take(1);
                    self.begin_word();
                    false
                }
                (b'\\', None) => true,
                (b'\\', Some(b'\n')) => {
                    self.at += 2;
                    self.at == self.text.len()
                }
                (b'\\', Some(_)) => {
                    self.take(2);
                    false
                }
                (b'\'', _) => !self.single(),
                (b'"', _) => !self.double(),
                (b'$', Some(b'\'')) => !self.escapes()?,
                (b'|' | b'&' | b'<' | b'>' | b'(' | b')' | b'`' | b'$', _) => {
                    let c = char::from(c);
                    return Err(format!(
                        "{c}: there are no pipes, redirections and variables here: quote it \
                         if it is part of a name"
                    ));
                }
                (b'*' | b'?' | b'[' | b']', _) => {
                    self.piece.push(SIGN);
                    self.take(1);
                    false
                }
                (0, _) => return Err("a NUL, which is in no name".into()),
                _ => {
                    self.take(1);
                    false
                }
            };
            if open {
                return Ok(End::Open);
            }
        }
        Ok(End::Text)
    }

    fn begin_word(&mut self) {
        self.word_start = self.at;
        self.piece_word_start = self.piece.len();
    }

    fn take(&mut self, n: usize) {
        self.piece
            .extend_from_slice(&self.text[self.at..self.at + n]);
        self.at += n;
    }

    /// '…'; false: it has no end.
    fn single(&mut self) -> bool {
        let rest = &self.text[self.at + 1..];
        let end = rest.iter().position(|&b| b == b'\'');
        self.take(end.map_or(rest.len() + 1, |n| n + 2));
        end.is_some()
    }

    /// "…"
    fn double(&mut self) -> bool {
        self.take(1);
        while let Some(&c) = self.text.get(self.at) {
            let both = c == b'\\' && self.at + 1 < self.text.len();
            self.take(if both { 2 } else { 1 });
            if c == b'"' {
                return true;
            }
        }
        false
    }

    /// $'…', as this program itself writes odd names.
    fn escapes(&mut self) -> Result<bool, String> {
        self.at += 2;
        let mut bytes = Vec::new();
        let mut ended = false;
        while let Some(&c) = self.text.get(self.at) {
            self.at += 1;
            match c {
                b'\'' => {
                    ended = true;
                    break;
                }
                b'\\' => {
                    let Some(&c) = self.text.get(self.at) else {
                        break;
                    };
                    self.at += 1;
                    bytes.push(match c {
                        b'n' => b'\n',
                        b't' => b'\t',
                        b'r' => b'\r',
                        b'a' => 7,
                        b'b' => 8,
                        b'e' | b'E' => 27,
                        b'f' => 12,
                        b'v' => 11,
                        b'0'..=b'7' => {
                            self.at -= 1;
                            self.number(8, 3)?
                        }
                        b'x' => self.number(16, 2)?,
                        b'\\' | b'\'' | b'"' | b'?' => c,
                        c => return Err(format!("$'…': \\{}: not known", char::from(c))),
                    });
                }
                c => bytes.push(c),
            }
        }
        self.piece.push(b'\'');
        for b in bytes {
            match b {
                b'\'' => self.piece.extend_from_slice(b"'\\''"),
                b => self.piece.push(b),
            }
        }
        if ended {
            self.piece.push(b'\'');
        }
        Ok(ended)
    }

    fn number(&mut self, base: u32, most: usize) -> Result<u8, String> {
        let mut value = None;
        for _ in 0..most {
            let digit = self.text.get(self.at).map(|&b| char::from(b));
            let Some(digit) = digit.and_then(|c| c.to_digit(base)) else {
                break;
            };
            value = Some(value.unwrap_or(0) * base + digit);
            self.at += 1;
        }
        let value = value.ok_or("$'…': \\x without digits")?;
        // \400 and above lose their highest bit, as in bash.
        match value as u8 {
            0 => Err("$'…': a NUL, which is in no name".into()),
            value => Ok(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<Vec<String>> {
        let commands = commands(text.as_bytes()).expect(text).expect(text);
        let text = |w: Word| w.text.into_string().expect("UTF-8");
        let words = |c: Vec<Word>| c.into_iter().map(text).collect();
        commands.into_iter().map(words).collect()
    }

    #[test]
    fn words_are_quoted_as_in_sh() {
        assert_eq!(split("ls  -l /a"), [["ls", "-l", "/a"]]);
        assert_eq!(split("a 'b c' \"d e\" f\\ g"), [["a", "b c", "d e", "f g"]]);
        assert_eq!(split("a 'b'\"c\"d"), [["a", "bcd"]]);
        assert_eq!(split("a ''"), [["a", ""]]);
        assert_eq!(split("a '\n' \"\\\"\""), [["a", "\n", "\""]]);
        assert_eq!(split("a\\\n b"), [["a", "b"]]);
    }

    #[test]
    fn commands_end_with_semicolons_and_lines() {
        assert_eq!(split("a; b c;;\n\nd"), [&["a"][..], &["b", "c"], &["d"]]);
        assert_eq!(
            split("a ';' \"#\" x#y # z; q\nb"),
            [&["a", ";", "#", "x#y"][..], &["b"]]
        );
        assert_eq!(split("# nothing"), [[""; 0]; 0]);
    }

    #[test]
    fn names_with_any_bytes_can_be_written() {
        let words = commands(b"rm $'a\\n\\'\\377\\x41'b")
            .expect("words")
            .expect("whole");
        assert_eq!(words[0][1].text, OsString::from_vec(b"a\n'\xffAb".to_vec()));
        let name = b"\xff it's\n$x";
        let line = format!("rm {}", crate::names::shown(name));
        let words = commands(line.as_bytes()).expect("words").expect("whole");
        assert_eq!(words[0][1].text, OsString::from_vec(name.to_vec()));
    }

    #[test]
    fn an_open_quote_goes_on_in_the_next_line() {
        for open in ["a 'b\n", "a \"b\n", "a $'b\n", "a \\\n", "a 'b"] {
            assert_eq!(commands(open.as_bytes()), Ok(None), "{open}");
        }
    }

    #[test]
    fn what_is_not_there_is_an_error_unless_quoted() {
        for text in ["a | b", "a > b", "a < b", "a & b", "a $b", "a `b`", "(a)"] {
            assert!(commands(text.as_bytes()).is_err(), "{text}");
        }
        assert_eq!(split("a '|' \"$b\" \\>"), [["a", "|", "$b", ">"]]);
    }

    #[test]
    fn signs_of_a_pattern_count_unless_they_are_quoted() {
        let pattern = |text: &str| {
            let words = commands(text.as_bytes()).expect(text).expect(text);
            let pattern = words[0][1].pattern.clone();
            pattern.map(|p| String::from_utf8(p).expect("UTF-8"))
        };
        assert_eq!(pattern("ls *.c").as_deref(), Some("*.c"));
        assert_eq!(pattern("ls 'a*'*").as_deref(), Some("a\\**"));
        assert_eq!(
            pattern("ls [a-c]\\?\"\\\\\"").as_deref(),
            Some("[a-c]\\?\\\\")
        );
        for quoted in [
            "ls '*'",
            "ls \"?\"",
            "ls \\*",
            "ls $'[a]'",
            "ls a[b",
            "ls a]",
        ] {
            assert_eq!(pattern(quoted), None, "{quoted}");
        }
        assert_eq!(split("echo a* '[b]'"), [["echo", "a*", "[b]"]]);
        assert!(commands(b"echo a\0b").is_err());
    }

    #[test]
    fn the_word_being_typed_is_found() {
        let at = |text: &str| {
            let t = typed(text.as_bytes()).expect(text);
            (
                t.words.len(),
                String::from_utf8(t.word).expect("UTF-8"),
                t.start,
            )
        };
        assert_eq!(at(""), (0, "".into(), 0));
        assert_eq!(at("ls /e"), (1, "/e".into(), 3));
        assert_eq!(at("ls -l "), (2, "".into(), 6));
        assert_eq!(at("a; ls 'b c"), (1, "b c".into(), 6));
        assert_eq!(at("ls b\\ c"), (1, "b c".into(), 3));
    }
}
