// SPDX-License-Identifier: GPL-2.0-only
//! Why Kconfig did not take an option. It says nothing itself: what lacks a dependency is
//! dropped. So its files are read here once more, after that, for the reason alone; what
//! is set is never decided here.
//!
//!   parse.rs       the files: options, what they depend on, what selects them
//!   expression.rs  dependencies, and which of their terms do not hold

mod expression;
mod parse;

use std::collections::BTreeMap;
use std::path::Path;

use crate::Result;
use expression::Values;

/// Other options that an answer names at most.
const NAMED: usize = 4;

/// One `config NAME` with what follows it; an option may have several.
#[derive(Debug, Default)]
struct Definition {
    /// bool, tristate, int, hex or string, where this one says so.
    kind: Option<&'static str>,
    /// Somebody may set it, on this condition.
    prompt: Option<String>,
    /// All conditions, those of menus and blocks around it too.
    depends: Vec<String>,
    ranges: Vec<(String, String)>,
    /// Of which one member is set.
    choice: Option<usize>,
}

/// All options that the files know for this architecture.
#[derive(Debug, Default)]
pub struct Tree {
    options: BTreeMap<String, Vec<Definition>>,
    /// Who selects an option, and on which condition.
    selects: BTreeMap<String, Vec<(String, String)>>,
    choices: Vec<Vec<String>>,
}

impl Tree {
    /// Those of a source tree.
    pub fn read(source: &Path) -> Result<Tree> {
        parse::tree(source)
    }

    /// Why `symbol` did not become `value` in a configuration that is this.
    pub fn why(&self, symbol: &str, value: &str, got: &Values) -> String {
        let name = symbol.strip_prefix("CONFIG_").unwrap_or(symbol);
        let Some(definitions) = self.options.get(name) else {
            let like = match self.like(name) {
                Some(like) => format!("; is {like} meant?"),
                None => String::new(),
            };
            return format!("this Linux has no such option for this architecture{like}");
        };
        if value == "m" && expression::value("MODULES", got) == "n" {
            return "there are no modules in this image; y builds it in".into();
        }
        if value == "n" {
            return self.why_set(name, got);
        }
        let refused = |of| self.refused(name, value, of, got);
        let reason = definitions.iter().rev().find_map(refused);
        reason.unwrap_or_else(|| {
            "its conditions hold, but for what the compiler or a later fragment says".into()
        })
    }

    /// What this definition of it has against the value.
    fn refused(&self, name: &str, value: &str, of: &Definition, got: &Values) -> Option<String> {
        let lacking: Vec<String> = of
            .depends
            .iter()
            .flat_map(|depends| expression::lacking(depends, got))
            .collect();
        if !lacking.is_empty() {
            return Some(format!("it needs {}", all_of(&lacking)));
        }
        match &of.prompt {
            None => return Some(self.not_asked(name, got)),
            Some(condition) => {
                let lacking = expression::lacking(condition, got);
                if !lacking.is_empty() {
                    return Some(format!(
                        "it can be set only with {}, else {}",
                        all_of(&lacking),
                        self.not_asked(name, got)
                    ));
                }
            }
        }
        let members = of.choice.and_then(|choice| self.choices.get(choice));
        let mut others = members.into_iter().flatten().filter(|other| *other != name);
        if let Some(other) = others.find(|other| expression::value(other, got) == "y") {
            return Some(format!("it is one of a choice, and {other} is set"));
        }
        wrong_value(value, of)
    }

    /// It has no prompt.
    fn not_asked(&self, name: &str, got: &Values) -> String {
        let selects = self.selects.get(name).map_or(&[][..], Vec::as_slice);
        let mut names: Vec<&str> = selects.iter().map(|(by, _)| by.as_str()).collect();
        names.retain(|by| expression::value(by, got) == "n");
        names.sort_unstable();
        names.dedup();
        match names.len() {
            0 => "nobody can set it: it follows from other options".into(),
            n if n > NAMED => {
                let some = names[..NAMED].join(", ");
                let more = n - NAMED;
                format!("nobody can set it: it comes with {some} or one of {more} more")
            }
            _ => format!("nobody can set it: it comes with {}", names.join(" or ")),
        }
    }

    /// It is set, and should not be.
    fn why_set(&self, name: &str, got: &Values) -> String {
        let selects = self.selects.get(name).into_iter().flatten();
        let mut by: Vec<&str> = selects
            .filter(|(by, condition)| {
                expression::value(by, got) != "n" && expression::lacking(condition, got).is_empty()
            })
            .map(|(by, _)| by.as_str())
            .collect();
        by.sort_unstable();
        by.dedup();
        match by.len() {
            0 => "nobody can unset it: it follows from other options".into(),
            n if n > NAMED => format!(
                "{} and {} more select it",
                by[..NAMED].join(", "),
                n - NAMED
            ),
            1 => format!("{} selects it", by[0]),
            _ => format!("{} select it", by.join(", ")),
        }
    }

    /// The option whose name differs least, if that is little.
    fn like(&self, name: &str) -> Option<&str> {
        let most = (name.len() / 4).min(2);
        let near = |known: &&String| known.len().abs_diff(name.len()) <= most;
        let known = self.options.keys().filter(near);
        let measured = known.map(|known| (distance(known, name), known.as_str()));
        let (least, known) = measured.min()?;
        (least <= most).then_some(known)
    }
}

/// A value that no option of its kind can have.
fn wrong_value(value: &str, of: &Definition) -> Option<String> {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    match of.kind? {
        "bool" | "tristate" => Some("it is y or n".into()),
        "string" => (!value.starts_with('"')).then(|| "it is a string in quotes".into()),
        kind @ ("int" | "hex") => {
            let Some(given) = number(value) else {
                return Some(format!("it is a number ({kind})"));
            };
            let outside = |(low, high): &&(String, String)| {
                number(low).is_some_and(|low| given < low)
                    || number(high).is_some_and(|high| given > high)
            };
            let (low, high) = of.ranges.iter().find(outside)?;
            Some(format!("it is a number from {low} to {high}"))
        }
        _ => None,
    }
}

fn all_of(terms: &[String]) -> String {
    terms.join(", and ")
}

/// Letters to change, add or leave out between two words.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, letter) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &against) in other.iter().enumerate() {
            let change = diagonal + usize::from(letter != against);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests;
