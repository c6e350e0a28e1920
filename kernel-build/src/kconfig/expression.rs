// SPDX-License-Identifier: GPL-2.0-only
//! Conditions as Kconfig writes them: `NET && (PCI || !SMP) && NR_CPUS > 1`.

use std::collections::BTreeMap;

/// Options with their CONFIG_ and their values; what is not among them is not set.
pub type Values = BTreeMap<String, String>;

#[derive(Debug, PartialEq)]
enum Expression<'a> {
    Word(&'a str),
    Not(Box<Expression<'a>>),
    Compared(&'a str, &'a str, &'a str),
    And(Vec<(Expression<'a>, &'a str)>),
    Or(Vec<Expression<'a>>),
}
use Expression::{And, Compared, Not, Or, Word};

/// What an option has, or a constant is.
pub fn value<'a>(word: &'a str, got: &'a Values) -> &'a str {
    let bare = word.trim_matches(['"', '\'']);
    match bare {
        "y" | "m" | "n" => bare,
        _ if bare.len() != word.len() => bare,
        // Only the compiler or a script knows.
        _ if bare.starts_with("$(") => "y",
        _ if bare.starts_with(|first: char| first.is_ascii_digit()) => bare,
        _ => {
            let found = got.get(&format!("CONFIG_{bare}"));
            found.map_or("n", |value| value.trim_matches('"'))
        }
    }
}

/// The terms of a condition, each with what its options are, that do not hold.
pub fn lacking(text: &str, got: &Values) -> Vec<String> {
    let Some(expression) = parse(text) else {
        return Vec::new();
    };
    let terms = match expression {
        And(terms) => terms,
        one => vec![(one, text.trim())],
    };
    let lacking = terms.iter().filter(|(term, _)| level(term, got) == 0);
    lacking
        .map(|(term, text)| with_values(term, text, got))
        .collect()
}

/// 0, 1 or 2 for n, m or y.
fn level(of: &Expression, got: &Values) -> u8 {
    match of {
        Word(word) => match value(word, got) {
            "y" => 2,
            "m" => 1,
            _ => 0,
        },
        Not(inner) => 2 - level(inner, got),
        Compared(one, how, other) => {
            let (one, other) = (value(one, got), value(other, got));
            let order = match (one.parse::<i64>(), other.parse::<i64>()) {
                (Ok(one), Ok(other)) => one.cmp(&other),
                _ => one.cmp(other),
            };
            let holds = match *how {
                "=" => order.is_eq(),
                "!=" => order.is_ne(),
                "<" => order.is_lt(),
                "<=" => order.is_le(),
                ">" => order.is_gt(),
                _ => order.is_ge(),
            };
            2 * u8::from(holds)
        }
        And(terms) => {
            let levels = terms.iter().map(|(term, _)| level(term, got));
            levels.min().unwrap_or(2)
        }
        Or(terms) => terms.iter().map(|term| level(term, got)).max().unwrap_or(0),
    }
}

fn with_values(of: &Expression, text: &str, got: &Values) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut words = Vec::new();
    options(of, &mut words);
    words.dedup();
    match words[..] {
        [word] if word == text => format!("{word}, which is not set"),
        _ => {
            let each = words
                .iter()
                .map(|word| format!("{word}={}", value(word, got)));
            format!("{text} ({})", each.collect::<Vec<_>>().join(", "))
        }
    }
}

fn options<'a>(of: &Expression<'a>, into: &mut Vec<&'a str>) {
    let is_option = |word: &str| {
        word.starts_with(|first: char| first.is_ascii_uppercase() || first.is_ascii_digit())
            && word.contains(|letter: char| letter.is_ascii_uppercase())
    };
    match of {
        Word(word) => into.extend(Some(*word).filter(|word| is_option(word))),
        Compared(one, _, other) => into.extend([*one, *other].into_iter().filter(|w| is_option(w))),
        Not(inner) => options(inner, into),
        And(terms) => terms.iter().for_each(|(term, _)| options(term, into)),
        Or(terms) => terms.iter().for_each(|term| options(term, into)),
    }
}

/// None if it is written in a way that is not understood.
fn parse(text: &str) -> Option<Expression<'_>> {
    let mut reader = Reader { text, at: 0 };
    let found = reader.or()?;
    reader.next().is_none().then_some(found)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn or(&mut self) -> Option<Expression<'a>> {
        let mut terms = vec![self.and()?];
        while self.take("||") {
            terms.push(self.and()?);
        }
        match terms.len() {
            1 => terms.pop(),
            _ => Some(Or(terms)),
        }
    }

    fn and(&mut self) -> Option<Expression<'a>> {
        let mut terms = Vec::new();
        loop {
            let from = self.at;
            let term = self.one()?;
            terms.push((term, self.text[from..self.at].trim()));
            if !self.take("&&") {
                break;
            }
        }
        match terms.len() {
            1 => terms.pop().map(|(term, _)| term),
            _ => Some(And(terms)),
        }
    }

    fn one(&mut self) -> Option<Expression<'a>> {
        let word = self.next()?;
        match word {
            "!" => return Some(Not(Box::new(self.one()?))),
            "(" => {
                let inner = self.or()?;
                return self.take(")").then_some(inner);
            }
            ")" | "&&" | "||" => return None,
            _ => {}
        }
        for how in ["=", "!=", "<=", ">=", "<", ">"] {
            if self.take(how) {
                return Some(Compared(word, how, self.next()?));
            }
        }
        Some(Word(word))
    }

    fn take(&mut self, word: &str) -> bool {
        let before = self.at;
        if self.next() == Some(word) {
            return true;
        }
        self.at = before;
        false
    }

    fn next(&mut self) -> Option<&'a str> {
        let rest = self.text[self.at..].trim_start();
        let from = self.text.len() - rest.len();
        let length = length(rest)?;
        self.at = from + length;
        Some(&rest[..length])
    }
}

/// Of the word or sign that a text begins with.
fn length(text: &str) -> Option<usize> {
    let first = text.chars().next()?;
    let signs = ["&&", "||", "!=", "<=", ">=", "!", "(", ")", "=", "<", ">"];
    if let Some(sign) = signs.iter().find(|sign| text.starts_with(**sign)) {
        return Some(sign.len());
    }
    if text.starts_with("$(") {
        let mut depth = 0;
        return text.char_indices().find_map(|(at, letter)| {
            depth += i32::from(letter == '(') - i32::from(letter == ')');
            (depth == 0 && letter == ')').then_some(at + 1)
        });
    }
    if first == '"' || first == '\'' {
        return Some(text[1..].find(first)? + 2);
    }
    let ends = |letter: char| !(letter.is_alphanumeric() || "_-./".contains(letter));
    match text.find(ends).unwrap_or(text.len()) {
        0 => None,
        length => Some(length),
    }
}
