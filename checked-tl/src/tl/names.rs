//! Which names a file sees: its own ones, and those that are the program's, which stand behind
//! `pub`. Where both have a name, it is the file's.

use super::files::Files;
use super::generic::{Callee, Of};
use std::collections::HashMap;

/// What a name in an expression stands for, if it is no variable.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// What has the case, and which one of it that is.
    Case(Of, usize),
    Function(Callee),
}

/// Names of one kind, and what they stand for: in a file, or in all.
pub(super) struct Names<'a, T> {
    files: &'a Files,
    all: HashMap<String, Vec<(Option<usize>, T)>>,
}

impl<'a, T: Clone> Names<'a, T> {
    pub fn new(files: &'a Files) -> Names<'a, T> {
        Names {
            files,
            all: HashMap::new(),
        }
    }

    fn find(&self, file: Option<usize>, name: &str) -> Option<&T> {
        let mut all = self.all.get(name)?.iter();
        all.find(|(of, _)| *of == file).map(|(_, it)| it)
    }

    /// What it stands for at a place.
    pub fn get(&self, at: usize, name: &str) -> Option<&T> {
        self.own(at, name).or_else(|| self.find(None, name))
    }

    /// The same, if the file itself has it.
    pub fn own(&self, at: usize, name: &str) -> Option<&T> {
        self.find(Some(self.files.number(at)), name)
    }

    /// Gives it a name, if there is none like it.
    pub fn add(&mut self, at: usize, name: &str, public: bool, it: T) -> bool {
        let file = Some(self.files.number(at));
        if self.find(file, name).is_some() || public && self.find(None, name).is_some() {
            return false;
        }
        let all = self.all.entry(name.to_owned()).or_default();
        all.push((file, it.clone()));
        if public {
            all.push((None, it));
        }
        true
    }

    /// What to say of a name that is not seen: whether another file has it.
    pub fn hidden(&self, name: &str) -> &'static str {
        match self.all.contains_key(name) {
            true => ": another file has it, without pub",
            false => "",
        }
    }
}
