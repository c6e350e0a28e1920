//! Which images a script will open: what its session's jail allows has to be known
//! before the first of them is looked into.

use super::lexer::{self, Words};
use super::line::{Line, Own, What};
use crate::args::Global;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use tane::{Address, Files, HostFiles};

/// Commands in which a name without `:/` is never an image.
const FOR_FILES: [&str; 6] = ["cp", "diff", "get", "lcd", "put", "tar"];
/// Commands in which it is one, also where names are those of an image's files.
const FOR_IMAGES: [&str; 4] = ["close", "dmesg", "inspect", "open"];

/// Those that a script names, with the options of the commands that open them.
/// `inside`: the session begins in an image. What is not there yet is left out, and so
/// is what cannot be understood: the command says why when its turn comes.
pub fn images(script: &[u8], inside: bool, global: &Global) -> Vec<(PathBuf, Global)> {
    let mut ahead = Ahead {
        inside,
        dir: PathBuf::new(),
        global,
        found: Vec::new(),
    };
    let mut text = Vec::new();
    for line in script.split_inclusive(|&b| b == b'\n') {
        text.extend_from_slice(line);
        match lexer::commands(&text) {
            Ok(None) => continue,
            Ok(Some(commands)) => commands.into_iter().for_each(|words| ahead.look(words)),
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
    found: Vec<(PathBuf, Global)>,
}

impl Ahead<'_> {
    fn look(&mut self, words: Words) {
        let (words, logins) = crate::login::take_out(words);
        let Ok(line) = Line::parse_words(words.clone(), self.inside) else {
            return;
        };
        let Ok(mut options) = line.options(self.global) else {
            return;
        };
        options.logins.extend(logins);
        let verb = words.first().and_then(|verb| verb.to_str());
        let verb = verb.unwrap_or_default();
        let bare = FOR_IMAGES.contains(&verb) || !self.inside && !FOR_FILES.contains(&verb);
        for word in words.iter().skip(1) {
            if let Some(image) = self.image(word, bare) {
                self.found.push((image, options.clone()));
            }
        }
        match line.what {
            What::Own(Own::Lcd { dir: Some(dir) }) => self.dir.push(dir),
            What::Own(Own::Cd { .. } | Own::Open { .. }) => self.inside = true,
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
