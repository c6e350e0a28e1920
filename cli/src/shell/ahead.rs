//! Which images a script will open, and which files of the host: what its session's jail
//! allows has to be known before the first image is looked into.

use super::lexer::{self, Word, Words};
use super::line::{Line, Own, What};
use crate::args::Global;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use tane::{Address, Files, HostFiles};

/// Commands in which a name without `:/` is never an image.
const FOR_FILES: [&str; 6] = ["cp", "diff", "get", "lcd", "put", "tar"];
/// Commands in which it is one, also where names are those of an image's files.
const FOR_IMAGES: [&str; 4] = ["close", "dmesg", "inspect", "open"];

/// Commands that write to no image, whatever their options.
const READING: [&str; 24] = [
    "cat", "cd", "close", "df", "diff", "dmesg", "du", "echo", "exit", "find", "get", "help",
    "images", "inspect", "lcd", "lpwd", "ls", "open", "pwd", "quit", "set", "stat", "sync", "tree",
];

/// What a script names.
#[derive(Default)]
pub struct Named {
    /// A command of it may write to images.
    pub writes: bool,
    /// With the options of the commands that open them.
    pub images: Vec<(PathBuf, Global)>,
    /// What is copied in.
    pub sources: Vec<PathBuf>,
    /// Where to it is copied out.
    pub dests: Vec<PathBuf>,
}

/// What a script names. `inside`: the session begins in an image. Images that are not
/// there yet are left out, and so is what cannot be understood: the command says why when
/// its turn comes.
pub fn look(script: &[u8], inside: bool, global: &Global) -> Named {
    let mut ahead = Ahead {
        inside,
        dir: PathBuf::new(),
        global,
        found: Named::default(),
    };
    let mut text = Vec::new();
    for line in script.split_inclusive(|&b| b == b'\n') {
        text.extend_from_slice(line);
        match lexer::commands(&text) {
            Ok(None) => continue,
            Ok(Some(commands)) => {
                let texts = |words: Vec<Word>| words.into_iter().map(|word| word.text).collect();
                commands
                    .into_iter()
                    .for_each(|words| ahead.look(texts(words)));
            }
            Err(_) => {}
        }
        text.clear();
    }
    ahead.found
}

struct Ahead<'g> {
    inside: bool,
    /// Where `lcd` will have gone, from here.
    dir: PathBuf,
    global: &'g Global,
    found: Named,
}

impl Ahead<'_> {
    fn look(&mut self, words: Words) {
        let (words, logins) = crate::login::take_out(words);
        let Ok(line) = Line::parse_words(words.clone(), self.inside) else {
            return;
        };
        let Ok(mut options) = line.options(self.global, &self.dir) else {
            return;
        };
        options.logins.extend(logins);
        let verb = words.first().and_then(|verb| verb.to_str());
        let verb = verb.unwrap_or_default();
        self.found.writes |= !READING.contains(&verb);
        let bare = FOR_IMAGES.contains(&verb) || !self.inside && !FOR_FILES.contains(&verb);
        for word in words.iter().skip(1) {
            if let Some(image) = self.image(word, bare) {
                self.found.images.push((image, options.clone()));
            }
        }
        match line.what {
            What::Own(Own::Lcd { dir: Some(dir) }) => self.dir.push(dir),
            What::Own(Own::Cd { .. } | Own::Open { .. }) => self.inside = true,
            What::Own(Own::Get { dest, .. }) => self.found.dests.push(self.dir.join(dest)),
            What::Own(Own::Put { path, .. }) => self.found.sources.push(self.dir.join(path)),
            _ => {}
        }
    }

    /// The file of an image that a word means.
    fn image(&self, word: &OsStr, bare: bool) -> Option<PathBuf> {
        let files = Below(&self.dir);
        let at = match Address::parse(word, &files).ok()? {
            Address::Image(at) => at,
            Address::Host(_) if bare => Address::parse_image(word, &files).ok()?,
            Address::Host(_) => return None,
        };
        let is_there = at.is_remote() || files.is_image(&at.image);
        is_there.then(|| match at.is_remote() {
            true => at.image,
            false => self.dir.join(at.image),
        })
    }
}

/// The host's files, seen from a directory.
struct Below<'d>(&'d Path);

impl Files for Below<'_> {
    fn exists(&self, path: &Path) -> bool {
        HostFiles::default().exists(&self.0.join(path))
    }

    fn is_image(&self, path: &Path) -> bool {
        HostFiles::default().is_image(&self.0.join(path))
    }
}
