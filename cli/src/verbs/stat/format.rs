//! `tane stat --format`: the sequences of GNU stat(1).

use super::Found;
use crate::names::shown;
use crate::show;
use crate::users::Users;
use tane_linux::{Kind, Time};

/// The sequences there are.
const KNOWN: &str = "aAbBdDfFgGhimnNorRstTuUwWxXyYzZ";
/// No column is wider, in characters.
const WIDEST: usize = 4096;

/// What a format says, piece by piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(Vec<u8>),
    Sequence(Sequence),
}

/// `%`, flags, a width, a precision and a letter, as printf has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sequence {
    left: bool,
    zeroes: bool,
    alternate: bool,
    sign: Option<char>,
    width: usize,
    /// `.` alone: as much as there is.
    precision: Option<Option<usize>>,
    letter: char,
}

impl Format {
    /// As `--format` takes it, without escapes.
    pub fn plain(text: &str) -> Result<Format, String> {
        Format::parse(text, false)
    }

    /// As `--printf` takes it: `\n`, `\t`, `\0` and octal and hexadecimal numbers too.
    pub fn escaped(text: &str) -> Result<Format, String> {
        Format::parse(text, true)
    }

    fn parse(text: &str, escapes: bool) -> Result<Format, String> {
        let mut pieces = Vec::new();
        let mut plain = Vec::new();
        let mut rest = text.chars().peekable();
        while let Some(c) = rest.next() {
            match c {
                '%' if rest.peek() == Some(&'%') => {
                    rest.next();
                    plain.push(b'%');
                }
                '%' => {
                    pieces.push(Piece::Text(std::mem::take(&mut plain)));
                    pieces.push(Piece::Sequence(Sequence::parse(&mut rest)?));
                }
                '\\' if escapes => plain.push(escape(&mut rest)?),
                c => plain.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        pieces.push(Piece::Text(plain));
        Ok(Format(pieces))
    }

    /// What it says of a file that was called `name`.
    pub fn of(&self, name: &[u8], found: &Found, users: &Users) -> Vec<u8> {
        let mut out = Vec::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::Sequence(sequence) => sequence.put(name, found, users, &mut out),
            }
        }
        out
    }
}

type Chars<'t> = std::iter::Peekable<std::str::Chars<'t>>;

fn escape(rest: &mut Chars) -> Result<u8, String> {
    let mut number = |radix: u32, most: usize| {
        let mut value = 0;
        let mut digits = 0;
        while let Some(digit) = rest.peek().and_then(|c| c.to_digit(radix)) {
            if digits == most {
                break;
            }
            value = value * radix + digit;
            digits += 1;
            rest.next();
        }
        (digits > 0).then_some(value as u8)
    };
    if let Some(byte) = number(8, 3) {
        return Ok(byte);
    }
    Ok(match rest.next() {
        Some('n') => b'\n',
        Some('t') => b'\t',
        Some('r') => b'\r',
        Some('a') => 7,
        Some('b') => 8,
        Some('e') => 27,
        Some('f') => 12,
        Some('v') => 11,
        Some(c @ ('\\' | '"')) => c as u8,
        Some('x') => {
            let digits: String = std::iter::from_fn(|| rest.next_if(char::is_ascii_hexdigit))
                .take(2)
                .collect();
            u8::from_str_radix(&digits, 16).map_err(|_| "\\x: a number has to follow")?
        }
        Some(c) => return Err(format!("\\{c}: no such escape")),
        None => return Err("a \\ at the end".into()),
    })
}

impl Sequence {
    fn parse(rest: &mut Chars) -> Result<Sequence, String> {
        let mut found = Sequence::default();
        while let Some(flag) = rest.next_if(|c| "-+ #0'".contains(*c)) {
            match flag {
                '-' => found.left = true,
                '0' => found.zeroes = true,
                '#' => found.alternate = true,
                // Of digits in groups there is none in the C locale.
                '\'' => {}
                sign => found.sign = Some(sign),
            }
        }
        let number = |rest: &mut Chars| {
            let digits: String =
                std::iter::from_fn(|| rest.next_if(char::is_ascii_digit)).collect();
            match digits.parse() {
                _ if digits.is_empty() => Ok(None),
                Ok(n) if n <= WIDEST => Ok(Some(n)),
                _ => Err(format!(
                    "%{digits}: the widest column has {WIDEST} characters"
                )),
            }
        };
        found.width = number(rest)?.unwrap_or(0);
        if rest.next_if_eq(&'.').is_some() {
            found.precision = Some(number(rest)?);
        }
        found.letter = rest.next().ok_or("a % at the end: %% is a percent sign")?;
        match KNOWN.contains(found.letter) {
            true => Ok(found),
            false => Err(format!(
                "%{}: no such sequence; there are %{}",
                found.letter,
                KNOWN
                    .chars()
                    .map(String::from)
                    .collect::<Vec<_>>()
                    .join(" %")
            )),
        }
    }

    fn put(&self, name: &[u8], found: &Found, users: &Users, out: &mut Vec<u8>) {
        let stat = &found.stat;
        let user = || users.user(stat.uid).unwrap_or("UNKNOWN");
        let group = || users.group(stat.gid).unwrap_or("UNKNOWN");
        match self.letter {
            'a' => self.octal(stat.permissions().into(), out),
            'A' => self.text(show::mode(stat.mode).as_bytes(), out),
            'b' => self.number(stat.blocks, out),
            'B' => self.number(512, out),
            'd' => self.number(stat.dev, out),
            'D' => self.hexadecimal(stat.dev, out),
            'f' => self.hexadecimal(stat.mode.into(), out),
            'F' => self.text(word(stat.kind(), stat.size).as_bytes(), out),
            'g' => self.number(stat.gid.into(), out),
            'G' => self.text(group().as_bytes(), out),
            'h' => self.number(stat.nlink, out),
            'i' => self.number(stat.ino, out),
            // A file system of an image is mounted nowhere but at its root.
            'm' => self.text(b"/", out),
            'n' => self.text(name, out),
            'N' => self.text(quoted(name, found.target.as_deref()).as_bytes(), out),
            'o' => self.number(stat.block_size, out),
            'r' => self.number(stat.rdev, out),
            'R' => self.hexadecimal(stat.rdev, out),
            's' => self.number(stat.size, out),
            't' => self.hexadecimal(show::device(stat.rdev).0.into(), out),
            'T' => self.hexadecimal(show::device(stat.rdev).1.into(), out),
            'u' => self.number(stat.uid.into(), out),
            'U' => self.text(user().as_bytes(), out),
            'w' => self.text(found.birth.map_or("-".into(), super::exact).as_bytes(), out),
            'x' => self.text(super::exact(stat.atime).as_bytes(), out),
            'y' => self.text(super::exact(stat.mtime).as_bytes(), out),
            'z' => self.text(super::exact(stat.ctime).as_bytes(), out),
            'W' => self.seconds(found.birth.unwrap_or_default(), out),
            'X' => self.seconds(stat.atime, out),
            'Y' => self.seconds(stat.mtime, out),
            'Z' => self.seconds(stat.ctime, out),
            other => unreachable!("%{other} was refused when it was read"),
        }
    }

    /// At least as wide as it has to be.
    fn fill(&self, sign: &str, digits: &[u8], zeroes: bool, out: &mut Vec<u8>) {
        let missing = self.width.saturating_sub(sign.len() + digits.len());
        let spaces = if zeroes { 0 } else { missing };
        let before = if self.left { 0 } else { spaces };
        out.extend(std::iter::repeat_n(b' ', before));
        out.extend_from_slice(sign.as_bytes());
        out.extend(std::iter::repeat_n(b'0', missing - spaces));
        out.extend_from_slice(digits);
        out.extend(std::iter::repeat_n(b' ', spaces - before));
    }

    fn text(&self, text: &[u8], out: &mut Vec<u8>) {
        let most = self.precision.map_or(text.len(), |most| most.unwrap_or(0));
        self.fill("", &text[..most.min(text.len())], false, out);
    }

    /// Digits, at least as many as the precision says.
    fn digits(&self, sign: &str, digits: String, out: &mut Vec<u8>) {
        let least = self.precision.map_or(0, |least| least.unwrap_or(0));
        let digits = format!("{digits:0>least$}");
        let zeroes = self.zeroes && !self.left && self.precision.is_none();
        self.fill(sign, digits.as_bytes(), zeroes, out);
    }

    fn number(&self, number: u64, out: &mut Vec<u8>) {
        self.digits("", number.to_string(), out);
    }

    fn octal(&self, number: u64, out: &mut Vec<u8>) {
        let start = if self.alternate && number != 0 {
            "0"
        } else {
            ""
        };
        self.digits("", format!("{start}{number:o}"), out);
    }

    fn hexadecimal(&self, number: u64, out: &mut Vec<u8>) {
        let start = if self.alternate && number != 0 {
            "0x"
        } else {
            ""
        };
        self.digits(start, format!("{number:x}"), out);
    }

    /// Since 1970; the precision says how much of the fraction there is.
    fn seconds(&self, time: Time, out: &mut Vec<u8>) {
        let fraction = format!("{:09}", time.nsec);
        let (negative, whole, fraction) = match (time.sec, time.nsec) {
            (sec @ ..=-1, 1..) => {
                let left = 1_000_000_000 - time.nsec;
                (true, (sec + 1).unsigned_abs(), format!("{left:09}"))
            }
            (sec, _) => (sec < 0, sec.unsigned_abs(), fraction),
        };
        let sign = match (negative, self.sign) {
            (true, _) => "-".into(),
            (false, sign) => sign.map_or(String::new(), String::from),
        };
        let text = match self.precision {
            None => {
                // The second that it is in.
                let whole = time.sec.unsigned_abs();
                whole.to_string()
            }
            Some(n) => match n.unwrap_or(9) {
                0 => time.sec.unsigned_abs().to_string(),
                n => format!("{whole}.{:0<n$}", &fraction[..n.min(9)]),
            },
        };
        self.fill(&sign, text.as_bytes(), self.zeroes && !self.left, out);
    }
}

/// GNU's words for the kinds of file.
fn word(kind: Kind, size: u64) -> &'static str {
    match kind {
        Kind::File if size == 0 => "regular empty file",
        Kind::File => "regular file",
        Kind::Directory => "directory",
        Kind::Symlink => "symbolic link",
        Kind::Fifo => "fifo",
        Kind::Socket => "socket",
        Kind::CharDevice => "character special file",
        Kind::BlockDevice => "block special file",
    }
}

/// In quotes, whatever it is; and what a symlink points to.
fn quoted(name: &[u8], target: Option<&[u8]>) -> String {
    let quote = |name: &[u8]| match shown(name) {
        plain if plain.as_bytes() == name => format!("'{plain}'"),
        quoted => quoted.into_owned(),
    };
    match target {
        Some(target) => format!("{} -> {}", quote(name), quote(target)),
        None => quote(name),
    }
}
