//! A line of typed assembly, read from left to right.

use super::{Arg, Known, Mem, Wrong, BYTE, HALF, WIDE};
use tane_checked::Type;

/// A line's place, for errors.
pub struct Line<'a> {
    pub number: usize,
    pub rest: &'a str,
}

impl<'a> Line<'a> {
    pub fn wrong<T>(&self, what: impl Into<String>) -> Result<T, Wrong> {
        Err(Wrong {
            line: self.number,
            what: what.into(),
        })
    }

    pub fn skip(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// Takes this, if it is what comes next.
    pub fn eat(&mut self, token: &str) -> bool {
        self.skip();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    pub fn expect(&mut self, token: &str) -> Result<(), Wrong> {
        match self.eat(token) {
            true => Ok(()),
            false => self.wrong(format!("{token:?} is missing at {:?}", self.rest)),
        }
    }

    /// A name, or a number.
    pub fn word(&mut self) -> &'a str {
        self.skip();
        let is = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '?');
        let end = self.rest.find(|c| !is(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    pub fn number<T: std::str::FromStr>(&mut self) -> Result<T, Wrong> {
        let negative = if self.eat("-") { "-" } else { "" };
        let word = self.word();
        let number = format!("{negative}{word}").parse();
        number.or_else(|_| self.wrong(format!("{word:?} is no number, or too large here")))
    }

    pub fn ty(&mut self) -> Result<Type, Wrong> {
        if self.eat("#") {
            let first = self.number()?;
            let last = if self.eat("-") { self.number()? } else { first };
            return Ok(Type::Object(first, last));
        }
        let word = self.word();
        match word {
            "?" => Ok(Type::Unknown),
            "int" => Ok(Type::Int),
            "fd" => Ok(Type::Descriptor),
            _ => {
                let signature = word.strip_prefix("fn").and_then(|n| n.parse().ok());
                let function = signature.map(Type::Function);
                function.map_or_else(|| self.wrong(format!("{word:?} is no type")), Ok)
            }
        }
    }

    /// Types in parentheses.
    pub fn types(&mut self) -> Result<Vec<Type>, Wrong> {
        self.expect("(")?;
        let mut all = Vec::new();
        while !self.eat(")") {
            if !all.is_empty() {
                self.expect(",")?;
            }
            all.push(self.ty()?);
        }
        Ok(all)
    }

    /// A text in quotes, as Rust writes bytes.
    pub fn text(&mut self) -> Result<Vec<u8>, Wrong> {
        self.expect("\"")?;
        let mut bytes = Vec::new();
        let mut rest = self.rest.bytes();
        loop {
            match rest.next() {
                Some(b'"') => break,
                Some(b'\\') => bytes.push(match rest.next() {
                    Some(b'n') => b'\n',
                    Some(b'r') => b'\r',
                    Some(b't') => b'\t',
                    Some(b'x') => {
                        let digits = [rest.next().unwrap_or(0), rest.next().unwrap_or(0)];
                        let digits = String::from_utf8_lossy(&digits).into_owned();
                        match u8::from_str_radix(&digits, 16) {
                            Ok(byte) => byte,
                            Err(_) => return self.wrong("\\x and no two digits"),
                        }
                    }
                    Some(byte @ (b'"' | b'\'' | b'\\')) => byte,
                    _ => return self.wrong("a \\ before what it is not for"),
                }),
                Some(byte) => bytes.push(byte),
                None => return self.wrong("a text without its end"),
            }
        }
        self.rest = &self.rest[self.rest.len() - rest.len()..];
        Ok(bytes)
    }

    pub fn end(&mut self) -> Result<(), Wrong> {
        self.skip();
        match self.rest.is_empty() || self.rest.starts_with('#') {
            true => Ok(()),
            false => self.wrong(format!("{:?} is too much here", self.rest)),
        }
    }

    pub fn memory(&mut self, size: u8) -> Result<Arg, Wrong> {
        self.expect("[")?;
        let mut mem = Mem {
            size,
            base: None,
            index: None,
            disp: 0,
        };
        loop {
            self.skip();
            if self
                .rest
                .starts_with(|c: char| c == '-' || c.is_ascii_digit())
            {
                mem.disp = self.number()?;
            } else {
                let word = self.word();
                let Some(register) = WIDE.iter().position(|name| *name == word) else {
                    return self.wrong(format!("{word:?} is no register of 8 bytes"));
                };
                if self.eat("*") {
                    let scale: u8 = self.number()?;
                    if ![1, 2, 4, 8].contains(&scale) {
                        return self.wrong("an index is multiplied by 1, 2, 4 or 8");
                    }
                    mem.index = Some((register as u8, scale));
                } else {
                    mem.base = Some(register as u8);
                }
            }
            if self.eat("]") {
                return Ok(Arg::Mem(mem));
            }
            self.skip();
            if !self.eat("+") && !self.rest.starts_with('-') {
                return self.wrong("an address is a register, an index and a number");
            }
        }
    }

    pub fn arg(&mut self) -> Result<Arg, Wrong> {
        self.skip();
        if self
            .rest
            .starts_with(|c: char| c == '-' || c.is_ascii_digit())
        {
            return self.number().map(Arg::Imm);
        }
        let word = self.word();
        for (bytes, names) in [(8, &WIDE), (4, &HALF), (1, &BYTE)] {
            if let Some(number) = names.iter().position(|name| *name == word) {
                return Ok(Arg::Reg(number as u8, bytes));
            }
        }
        if let Some(text) = word.strip_prefix("text").and_then(|n| n.parse().ok()) {
            return Ok(Arg::Text(text));
        }
        if let Some(slot) = word.strip_prefix("slot").and_then(|n| n.parse().ok()) {
            return Ok(Arg::Slot(slot));
        }
        match word {
            "byte" => self.memory(1),
            "word" => self.memory(2),
            "dword" => self.memory(4),
            "qword" => self.memory(8),
            _ => self.wrong(format!("{word:?} is no operand")),
        }
    }

    /// `words [register type, rsp+offset type]`
    pub fn known(&mut self) -> Result<Known, Wrong> {
        let count: usize = self.number()?;
        let mut it = Known {
            registers: [Type::Unknown; 16],
            words: vec![Type::Unknown; count.min(1 << 16)],
        };
        self.expect("[")?;
        let mut first = true;
        while !self.eat("]") {
            if !first {
                self.expect(",")?;
            }
            first = false;
            let word = self.word();
            let Some(register) = WIDE.iter().position(|name| *name == word) else {
                return self.wrong(format!("{word:?} is no register of 8 bytes"));
            };
            if self.eat("+") {
                let above: usize = self.number()?;
                let i = it.words.len().checked_sub(above / 8 + 1);
                let Some(i) = i.filter(|_| word == "rsp") else {
                    return self.wrong("there are fewer words");
                };
                it.words[i] = self.ty()?;
            } else {
                it.registers[register] = self.ty()?;
            }
        }
        Ok(it)
    }
}
