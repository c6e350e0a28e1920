//! A program of several files: what `use "other.tl";` names is taken in, once, whoever names it.
//! Places are those in all of their text, one file behind the other.

use super::tree::Program;
use super::{parse, Mistake, Told};

/// The functions that are written in the language, and come with it.
const STD: &str = include_str!("std.tl");
/// As no file of a program is called: one of its own may be called std.tl.
const STD_NAME: &str = "<std.tl>";
/// Where it is among the files, behind the one that a program begins with.
const STD_AT: usize = 1;

/// Bytes that all files of a program have at most: what they are made into takes a
/// hundred times that while it is made.
pub const MOST_TEXT: usize = 4 << 20;
/// Files of a program.
pub const MOST_FILES: usize = 1000;

/// Reads a file that another one names: given the name of that one and what it says, the name and
/// the text, or why there is none. The same file has the same name each time.
pub type Read<'r> = dyn FnMut(&str, &str) -> Result<(String, String), String> + 'r;

/// The text of all files.
#[derive(Default)]
pub struct Files {
    pub text: String,
    /// Names, and where each begins.
    files: Vec<(String, usize)>,
}

impl Files {
    fn add(&mut self, name: &str, source: &str) -> usize {
        let at = self.text.len();
        self.files.push((name.to_owned(), at));
        self.text.push_str(source);
        // The end of a file is a place in it.
        self.text.push('\n');
        at
    }

    /// The number of the file that a place is in.
    pub fn number(&self, at: usize) -> usize {
        let after = self.files.partition_point(|(_, start)| *start <= at);
        after.saturating_sub(1)
    }

    /// Whether the program has it already.
    fn has(&self, name: &str) -> bool {
        let mut own = self.files.iter().enumerate().filter(|(i, _)| *i != STD_AT);
        own.any(|(_, (known, _))| known == name)
    }

    /// What speaks against one file more.
    fn too_much(&self, source: &str) -> Option<String> {
        match () {
            () if self.text.len().saturating_add(source.len()) > MOST_TEXT => {
                Some(format!("a program has at most {} MiB", MOST_TEXT >> 20))
            }
            // What comes with the language is none.
            () if self.files.len() > MOST_FILES => {
                Some(format!("a program has at most {MOST_FILES} files"))
            }
            () => None,
        }
    }

    /// With the file that it is in.
    pub fn told(&self, mistake: &Mistake) -> Told {
        let number = self.number(mistake.at);
        let (name, at) = &self.files[number];
        let end = self
            .files
            .get(number + 1)
            .map_or(self.text.len(), |(_, at)| *at);
        let inside = Mistake::new(mistake.at - at, mistake.what.clone());
        let mut told = inside.told(name, &self.text[*at..end - 1]);
        let needed = mistake.needed.iter();
        let needed = needed.map(|(at, what)| self.told(&Mistake::new(*at, what.as_str())));
        told.needed = needed.collect();
        told
    }

    /// Names, and how many lines are before each.
    pub fn lines(&self) -> Vec<(String, u32)> {
        let lines = |at: usize| self.text[..at].matches('\n').count() as u32;
        let each = self.files.iter();
        each.map(|(name, at)| (name.clone(), lines(*at))).collect()
    }

    /// All of a program: what comes with the language is its first part.
    pub fn read(file: &str, source: &str, read: &mut Read) -> Result<(Files, Program), Told> {
        let mut files = Files::default();
        if let Some(what) = files.too_much(source) {
            return Err(Mistake::new(0, what).told(file, ""));
        }
        let mut left = vec![(file.to_owned(), source.to_owned(), files.add(file, source))];
        let at = files.add(STD_NAME, STD);
        let mut program = parse::parse(STD, at, 0).map_err(|mistake| files.told(&mistake))?;
        for function in &mut program.functions {
            function.own = false;
        }
        while let Some((file, source, at)) = left.pop() {
            let part = parse::parse(&source, at, program.ids);
            let mut part = part.map_err(|mistake| files.told(&mistake))?;
            for (at, path) in part.uses.drain(..) {
                let found = read(&file, &path);
                let (name, text) = found
                    .map_err(|what| files.told(&Mistake::new(at, format!("{path}: {what}"))))?;
                if !files.has(&name) {
                    if let Some(what) = files.too_much(&text) {
                        let what = format!("{path}: {what}");
                        return Err(files.told(&Mistake::new(at, what)));
                    }
                    let at = files.add(&name, &text);
                    left.push((name, text, at));
                }
            }
            program.add(part);
        }
        Ok((files, program))
    }
}
