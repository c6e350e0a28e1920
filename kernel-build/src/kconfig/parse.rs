// SPDX-License-Identifier: GPL-2.0-only
//! Kconfig's files, as far as reasons are in them.

use std::path::Path;

use super::{Definition, Tree};
use crate::{layout, Result};

/// What is around an option.
struct Block {
    /// What ends it.
    end: &'static str,
    depends: Vec<String>,
    choice: Option<usize>,
}

struct Reader<'a> {
    source: &'a Path,
    tree: Tree,
    blocks: Vec<Block>,
    /// The option that lines are of.
    name: Option<String>,
    current: Definition,
    /// Lines are of the last block rather than of an option.
    of_block: bool,
}

pub fn tree(source: &Path) -> Result<Tree> {
    let mut reader = Reader {
        source,
        tree: Tree::default(),
        blocks: Vec::new(),
        name: None,
        current: Definition::default(),
        of_block: false,
    };
    reader.file("Kconfig")?;
    reader.finish();
    Ok(reader.tree)
}

impl Reader<'_> {
    fn file(&mut self, name: &str) -> Result<()> {
        let text = layout::read(&self.source.join(name))?;
        let text = text.replace("\\\n", " ");
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let (word, rest) = split(line);
            if matches!(word, "help" | "---help---") {
                let mut first = None;
                while let Some(line) = lines.peek() {
                    let indented = indentation(line);
                    let is_help = line.trim().is_empty()
                        || (indented > 0 && indented >= *first.get_or_insert(indented));
                    if !is_help {
                        break;
                    }
                    lines.next();
                }
                continue;
            }
            if word == "source" || word == "osource" {
                let path = rest.trim_matches('"').replace("$(SRCARCH)", "tane");
                self.finish();
                // What is named by other variables is of other architectures.
                if !path.contains('$') && self.source.join(&path).is_file() {
                    self.file(&path)?;
                }
                continue;
            }
            self.line(word, rest);
        }
        Ok(())
    }

    fn line(&mut self, word: &str, rest: &str) {
        match word {
            "config" | "menuconfig" => {
                self.finish();
                self.name = Some(rest.to_owned());
                self.current.depends = self.around();
                let choice = self.blocks.iter().rev().find_map(|block| block.choice);
                self.current.choice = choice;
                if let Some(choice) = choice {
                    self.tree.choices[choice].push(rest.to_owned());
                }
            }
            "if" => self.begin("endif", vec![without_comment(rest).to_owned()], None),
            "menu" => self.begin("endmenu", Vec::new(), None),
            "choice" => {
                self.tree.choices.push(Vec::new());
                let choice = Some(self.tree.choices.len() - 1);
                self.begin("endchoice", Vec::new(), choice);
            }
            "endif" | "endmenu" | "endchoice" => {
                self.finish();
                self.blocks.pop_if(|block| block.end == word);
            }
            "comment" | "mainmenu" => {
                self.finish();
                self.of_block = false;
            }
            "depends" => {
                let condition = rest.strip_prefix("on").unwrap_or(rest);
                let condition = without_comment(condition).to_owned();
                match (&self.name, self.blocks.last_mut()) {
                    (Some(_), _) => self.current.depends.push(condition),
                    (None, Some(block)) if self.of_block => block.depends.push(condition),
                    _ => {}
                }
            }
            _ if self.name.is_some() => self.property(word, rest),
            _ => {}
        }
    }

    fn property(&mut self, word: &str, rest: &str) {
        let kinds = ["bool", "tristate", "int", "hex", "string"];
        let (rest, condition) = conditional(rest);
        match word {
            "select" => {
                let by = self.name.clone().unwrap_or_default();
                let selects = self.tree.selects.entry(rest.to_owned()).or_default();
                selects.push((by, condition.to_owned()));
            }
            "range" => {
                if let Some((low, high)) = rest.split_once(char::is_whitespace) {
                    let range = (low.to_owned(), high.trim().to_owned());
                    self.current.ranges.push(range);
                }
            }
            "prompt" => self.current.prompt = Some(condition.to_owned()),
            "def_bool" => self.current.kind = Some("bool"),
            "def_tristate" => self.current.kind = Some("tristate"),
            _ => {
                let Some(kind) = kinds.into_iter().find(|kind| *kind == word) else {
                    return;
                };
                self.current.kind = Some(kind);
                if !rest.is_empty() {
                    self.current.prompt = Some(condition.to_owned());
                }
            }
        }
    }

    /// What all blocks around this place ask for.
    fn around(&self) -> Vec<String> {
        let depends = self.blocks.iter().flat_map(|block| &block.depends);
        depends.cloned().collect()
    }

    fn begin(&mut self, end: &'static str, depends: Vec<String>, choice: Option<usize>) {
        self.finish();
        self.blocks.push(Block {
            end,
            depends,
            choice,
        });
        self.of_block = true;
    }

    /// The option before this place is complete.
    fn finish(&mut self) {
        self.of_block = false;
        let definition = std::mem::take(&mut self.current);
        if let Some(name) = self.name.take() {
            let all = self.tree.options.entry(name).or_default();
            all.push(definition);
        }
    }
}

/// The first word of a line, and what follows it.
fn split(line: &str) -> (&str, &str) {
    let line = line.trim();
    match line.split_once(char::is_whitespace) {
        _ if line.starts_with('#') => ("", ""),
        Some((word, rest)) => (word, rest.trim()),
        None => (line, ""),
    }
}

/// `"Text" if CONDITION`, apart; no condition is one that holds.
fn conditional(rest: &str) -> (&str, &str) {
    let quoted = rest.strip_prefix('"').and_then(|rest| rest.find('"'));
    let from = quoted.map_or(0, |end| end + 2);
    let tail = &rest[from..];
    match tail.find(" if ").or(tail.find("\tif ")) {
        Some(at) => (rest[..from + at].trim(), without_comment(&tail[at + 4..])),
        None if tail.trim_start().starts_with("if ") => (
            rest[..from].trim(),
            without_comment(&tail.trim_start()[3..]),
        ),
        None => (without_comment(rest), "y"),
    }
}

fn without_comment(text: &str) -> &str {
    let end = text.find(" #").or(text.find("\t#")).unwrap_or(text.len());
    text[..end].trim()
}

fn indentation(line: &str) -> usize {
    let mut columns = 0;
    for letter in line.chars() {
        columns = match letter {
            '\t' => (columns / 8 + 1) * 8,
            ' ' => columns + 1,
            _ => break,
        };
    }
    columns
}
