//! Which images a script will open, and which files of the host: what its session's jail
//! allows has to be known before the first image is looked into.

use super::lexer::{self, Word, Words};
use super::line::{Line, Own, What};
use crate::args::{Global, Verb};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tane::{Address, Files, HostFiles};

/// Commands in which a name without `:/` is never an image.
const FOR_FILES: [&str; 6] = ["cp", "diff", "get", "lcd", "put", "tar"];
/// Commands in which it is one, also where names are those of an image's files.
const FOR_IMAGES: [&str; 4] = ["close", "dmesg", "inspect", "open"];

/// What a script names.
#[derive(Default)]
pub struct Named {
    /// A command of it may write to images.
    pub writes: bool,
    /// A command of it may open files of the host in this process.
    pub opens: bool,
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
                commands.into_iter().for_each(|words| ahead.look(words));
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
    fn look(&mut self, words: Vec<Word>) {
        // What they stand for is looked for.
        let mut patterns = words.iter().filter(|word| word.pattern.is_some());
        self.found.opens |= patterns.any(|word| self.is_on_host(&word.text));
        let words: Words = words.into_iter().map(|word| word.text).collect();
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
        self.found.writes |= writes(&line.what);
        self.found.opens |= self.opens(&line.what);
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

    /// Whether a command may open files of the host that it has no other process for, as those
    /// that copy have.
    fn opens(&self, command: &What) -> bool {
        let verb = match command {
            What::Own(_) => return false,
            What::Verb(verb) => &**verb,
        };
        match verb {
            Verb::Cat(_) | Verb::Df(_) | Verb::Du(_) | Verb::Find(_) | Verb::Inspect(_) => false,
            Verb::Ls(_) | Verb::Stat(_) | Verb::Tree(_) | Verb::Cp(_) | Verb::Mkdir(_) => false,
            Verb::Rm(_) | Verb::Mv(_) | Verb::Ln(_) | Verb::Chmod(_) | Verb::Chown(_) => false,
            Verb::Touch(_) | Verb::Truncate(_) | Verb::Trim(_) => false,
            // What is read of the host the opener opens.
            Verb::Dmesg(_) | Verb::Xattr(_) => false,
            Verb::Tar(tar) => tar.makes_a_file(),
            Verb::Diff(diff) => self.is_on_host(&diff.old) || self.is_on_host(&diff.new),
            _ => true,
        }
    }

    /// Whether a word means something on the host, where it is a path.
    fn is_on_host(&self, word: &OsStr) -> bool {
        let address = || Address::parse(word, &Below(&self.dir));
        word.as_bytes().starts_with(b"host:")
            || !self.inside && !matches!(address(), Ok(Address::Image(_)))
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

/// Whether a command may write to an image.
fn writes(command: &What) -> bool {
    let verb = match command {
        What::Own(own) => return matches!(own, Own::Put { .. }),
        What::Verb(verb) => &**verb,
    };
    match verb {
        Verb::Cat(_) | Verb::Df(_) | Verb::Diff(_) | Verb::Dmesg(_) | Verb::Du(_) => false,
        Verb::Find(_) | Verb::Inspect(_) | Verb::Ls(_) | Verb::Stat(_) | Verb::Tree(_) => false,
        Verb::Cp(cp) => !cp.dest.as_bytes().starts_with(b"host:") && cp.dest != "-",
        Verb::Tar(tar) => tar.extracts(),
        Verb::Xattr(xattr) => xattr.changes(),
        _ => true,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_known_which_commands_write_to_images_and_which_open_files_of_the_host() {
        for (script, writes, opens) in [
            ("ls -l; cat f; get f; cd /x; find . -name x", false, false),
            ("cp f host:.; cp f -; xattr get user.v f", false, false),
            ("tar create - .; dmesg", false, false),
            ("tar create a.tar .", false, true),
            ("diff a host:b", false, true),
            ("diff a b; ls *", false, false),
            ("cp host:*.txt .", true, true),
            ("put f", true, false),
            ("tar extract - .; tar extract a.tar .", true, false),
            ("xattr set user.v x f", true, false),
            ("xattr set user.v --file x f", true, false),
            ("rm f", true, false),
            // What is quoted, or nobody understands, does nothing.
            ("echo 'rm f'; echo rm f # rm f", false, false),
            ("rm --no-such-option f", false, false),
        ] {
            let found = look(script.as_bytes(), true, &Global::default());
            assert_eq!((found.writes, found.opens), (writes, opens), "{script}");
        }
        // Where there is no image yet, a name may be one of the host's.
        let found = look(b"diff a b", false, &Global::default());
        assert!(found.opens);
    }
}
