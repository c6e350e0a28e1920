//! The text in which LVM2 keeps what it knows: `name = value` and `name { … }`.

use std::collections::HashMap;

/// Deeper text is not LVM's.
const DEEPEST: u32 = 16;

#[derive(Debug, PartialEq)]
pub(super) enum Value {
    Number(i64),
    Text(String),
    List(Vec<Value>),
    Section(HashMap<String, Value>),
}

impl Value {
    /// The value at `a/b/c`.
    pub fn get(&self, path: &str) -> Option<&Value> {
        path.split('/').try_fold(self, |value, name| match value {
            Value::Section(map) => map.get(name),
            _ => None,
        })
    }

    /// The value of that name, whatever signs are in it.
    pub fn child(&self, name: &str) -> Option<&Value> {
        match self {
            Value::Section(map) => map.get(name),
            _ => None,
        }
    }

    pub fn number(&self, path: &str) -> Option<u64> {
        match self.get(path)? {
            Value::Number(n) => u64::try_from(*n).ok(),
            _ => None,
        }
    }

    pub fn text(&self, path: &str) -> Option<&str> {
        match self.get(path)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn list(&self, path: &str) -> &[Value] {
        match self.get(path) {
            Some(Value::List(list)) => list,
            _ => &[],
        }
    }

    /// The sections in here, by name.
    pub fn sections(&self) -> Vec<(&str, &Value)> {
        let Value::Section(map) = self else {
            return Vec::new();
        };
        let mut found: Vec<_> = map
            .iter()
            .filter(|(_, value)| matches!(value, Value::Section(_)))
            .map(|(name, value)| (name.as_str(), value))
            .collect();
        found.sort_by_key(|(name, _)| *name);
        found
    }
}

/// The whole text as a section. None: it is not such a text.
pub(super) fn parse(text: &str) -> Option<Value> {
    let mut rest = Words(text);
    let value = section(&mut rest, 0)?;
    (rest.next() == Some("")).then_some(value)
}

struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    /// The next word, "" at the end; texts keep their first quote.
    fn next(&mut self) -> Option<&'a str> {
        loop {
            self.0 = self
                .0
                .trim_start_matches(|c: char| c.is_whitespace() || c == '\0');
            match self.0.strip_prefix('#') {
                Some(comment) => self.0 = comment.split_once('\n').map_or("", |(_, rest)| rest),
                None => break,
            }
        }
        let len = match self.0.chars().next() {
            None => 0,
            Some('"') => {
                let mut escaped = false;
                let end = self.0[1..].char_indices().find(|(_, c)| {
                    let end = *c == '"' && !escaped;
                    escaped = *c == '\\' && !escaped;
                    end
                });
                let (word, rest) = self.0.split_at(1 + end?.0);
                self.0 = &rest[1..];
                return Some(word);
            }
            Some('{' | '}' | '[' | ']' | '=' | ',') => 1,
            Some(_) => {
                let ends = |c: char| c.is_whitespace() || "{}[]=,\"#\0".contains(c);
                self.0.find(ends).unwrap_or(self.0.len())
            }
        };
        let (word, rest) = self.0.split_at(len);
        self.0 = rest;
        Some(word)
    }

    fn peek(&self) -> Option<&'a str> {
        Words(self.0).next()
    }
}

fn section(words: &mut Words, depth: u32) -> Option<Value> {
    let mut map = HashMap::new();
    while !matches!(words.peek()?, "" | "}") {
        let name = words.next()?.to_owned();
        let value = match words.next()? {
            "{" if depth < DEEPEST => {
                let inner = section(words, depth + 1)?;
                (words.next()? == "}").then_some(inner)?
            }
            "=" => value(words, depth)?,
            _ => return None,
        };
        map.insert(name, value);
    }
    Some(Value::Section(map))
}

fn value(words: &mut Words, depth: u32) -> Option<Value> {
    let word = words.next()?;
    if let Some(text) = word.strip_prefix('"') {
        return Some(Value::Text(
            text.replace("\\\"", "\"").replace("\\\\", "\\"),
        ));
    }
    if word != "[" {
        // Floating numbers are nothing that we need.
        return Some(Value::Number(word.split('.').next()?.parse().ok()?));
    }
    let mut list = Vec::new();
    loop {
        match words.peek()? {
            "]" => {
                words.next();
                return Some(Value::List(list));
            }
            "," => {
                words.next();
            }
            _ if depth < DEEPEST => list.push(value(words, depth + 1)?),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_lists_and_comments_are_read() {
        let text = "vg { # a comment\n id = \"a\\\"b\"\nextent_size = 8192\n\
            lv { stripes = [\n\"pv0\", 0,\n\"pv1\", 7 ] } }\n# end\n\0\0";
        let found = parse(text).unwrap();
        assert_eq!(found.text("vg/id"), Some("a\"b"));
        assert_eq!(found.number("vg/extent_size"), Some(8192));
        assert_eq!(found.list("vg/lv/stripes").len(), 4);
        assert_eq!(found.get("vg").unwrap().sections()[0].0, "lv");
    }

    #[test]
    fn nonsense_is_nothing() {
        for text in ["{", "a {", "a = ", "a = [", "a = \"", "a b", "}", "a = [1"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse(&"a {".repeat(100_000)), None);
        assert_eq!(parse(&format!("a = {}", "[".repeat(100_000))), None);
    }
}
