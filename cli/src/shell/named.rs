//! Which images a script will open, and which files of the host: what its session's jail
//! allows has to be known before the first image is looked into.

use super::lexer::{self, Word, Words};
use super::line::{Line, Own, What};
use crate::command_line::Verb;
use crate::session::Access;
use crate::session::Global;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tane::{Address, Files, HostFiles};

/// Commands in which a name without `:/` is never an image.
const FOR_FILES: [&str; 6] = ["cp", "diff", "get", "lcd", "put", "tar"];
/// Commands in which it is one, also where names are those of an image's files.
const FOR_IMAGES: [&str; 4] = ["close", "dmesg", "inspect", "open"];

/// An image that a script names, and the options that it is opened with then.
pub struct Image {
    pub file: PathBuf,
    pub access: Access,
    pub options: Global,
}

/// What a script names.
#[derive(Default)]
pub struct Named {
    /// A command of it may write to images.
    pub writes: bool,
    /// Those that may be written with the session's own options.
    pub written: Vec<PathBuf>,
    /// A command of it lists or compares directories of the host.
    pub lists: bool,
    pub images: Vec<Image>,
    /// What is copied in.
    pub sources: Vec<PathBuf>,
    /// Where to it is copied out.
    pub dests: Vec<PathBuf>,
}

/// What a script names. `first`: the image in which the session begins. Images that are not
/// there yet are left out, and so is what cannot be understood: the command says why when
/// its turn comes.
pub fn look(script: &[u8], first: Option<&Path>, global: &Global) -> Named {
    let mut reader = Reader::new(first.is_some(), first, global);
    let mut text = Vec::new();
    for line in script.split_inclusive(|&b| b == b'\n') {
        text.extend_from_slice(line);
        match lexer::commands(&text) {
            Ok(None) => continue,
            Ok(Some(commands)) => {
                commands.into_iter().for_each(|words| reader.look(words));
            }
            Err(_) => {}
        }
        text.clear();
    }
    reader.found
}

/// The images that one command names, of which nobody knows anything else before.
pub fn images(words: Vec<Word>, inside: bool, global: &Global) -> Vec<PathBuf> {
    let mut reader = Reader::new(inside, None, global);
    reader.look(words);
    reader.found.images.into_iter().map(|i| i.file).collect()
}

struct Reader<'g> {
    inside: bool,
    /// In which image the session will be, if that is known.
    here: Option<PathBuf>,
    /// And was before.
    before: Option<PathBuf>,
    /// What was opened with options of its own, by `open`.
    own: Vec<(PathBuf, Global)>,
    /// Where `lcd` will have gone, from here.
    dir: PathBuf,
    global: &'g Global,
    found: Named,
}

impl<'g> Reader<'g> {
    fn new(inside: bool, here: Option<&Path>, global: &'g Global) -> Reader<'g> {
        Reader {
            inside,
            here: here.map(Path::to_owned),
            before: None,
            own: Vec::new(),
            dir: PathBuf::new(),
            global,
            found: Named::default(),
        }
    }

    fn look(&mut self, words: Vec<Word>) {
        // What they stand for is looked for.
        let mut patterns = words.iter().filter(|word| word.pattern.is_some());
        self.found.lists |= patterns.any(|word| self.is_on_host(&word.text));
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
        self.found.lists |= self.lists(&line.what);
        let bare = FOR_IMAGES.contains(&verb) || !self.inside && !FOR_FILES.contains(&verb);
        if let What::Own(Own::Open { image }) = &line.what {
            if let Some(image) = self.image(image, true) {
                self.own.retain(|(known, _)| *known != image);
                self.own.push((image, options.clone()));
            }
        }
        for word in words.iter().skip(1) {
            if let Some(image) = self.image(word, bare) {
                self.names(image, Access::Read, &options);
            }
        }
        for image in self.written(&line.what, &words) {
            self.names(image, Access::Write, &options);
        }
        match line.what {
            What::Own(Own::Lcd { dir: Some(dir) }) => self.dir.push(dir),
            What::Own(Own::Cd { dir }) if dir == "-" => {
                let there = self.before.take();
                self.goes(there);
            }
            What::Own(Own::Cd { dir }) => {
                let there = self.image(&dir, !self.inside).or(self.here.clone());
                self.goes(there);
            }
            What::Own(Own::Open { image }) => {
                let there = self.image(&image, true);
                self.goes(there);
            }
            What::Own(Own::Get { dest, .. }) => self.found.dests.push(self.dir.join(dest)),
            What::Own(Own::Put { path, .. }) => self.found.sources.push(self.dir.join(path)),
            _ => {}
        }
    }

    fn goes(&mut self, there: Option<PathBuf>) {
        self.inside = true;
        self.before = std::mem::replace(&mut self.here, there);
    }

    /// An image is opened by a command with these options, unless it has its own.
    fn names(&mut self, file: PathBuf, access: Access, options: &Global) {
        let own = self.own.iter().find(|(known, _)| *known == file);
        let is_known = |other: &Image| other.file == file && other.access == access;
        let is_plain = own.is_none() && options.logins.len() == self.global.logins.len();
        if is_plain && self.found.images.iter().any(is_known) {
            return;
        }
        if own.is_none() && access == Access::Write {
            self.found.written.push(file.clone());
        }
        self.found.images.push(Image {
            options: own.map_or(options, |(_, own)| own).clone(),
            file,
            access,
        });
    }

    /// The images that a command may write to, as far as its words tell.
    fn written(&self, command: &What, words: &[OsString]) -> Vec<PathBuf> {
        if !writes(command) {
            return Vec::new();
        }
        let one = |word: &OsString| vec![word.clone()];
        // Paths, which in an image are its own unless they name another, or whole images.
        let (paths, images) = match command {
            What::Own(Own::Put { dest, .. }) => (one(dest), Vec::new()),
            What::Own(_) => return Vec::new(),
            What::Verb(verb) => match &**verb {
                Verb::Chmod(args) => (args.paths.clone(), Vec::new()),
                Verb::Chown(args) => (args.paths.clone(), Vec::new()),
                Verb::Convert(args) => (Vec::new(), one(&args.dest.clone().into())),
                Verb::Cp(args) => (one(&args.dest), Vec::new()),
                Verb::Fsck(args) => (Vec::new(), one(&args.image)),
                Verb::Label(args) => (Vec::new(), one(&args.image)),
                Verb::Ln(args) => (one(&args.link), Vec::new()),
                Verb::Mkdir(args) => (args.paths.clone(), Vec::new()),
                Verb::Mkfs(args) => (Vec::new(), one(&args.image)),
                Verb::Mv(args) => ([&args.sources[..], &one(&args.dest)].concat(), Vec::new()),
                Verb::Resize(args) => (Vec::new(), one(&args.image)),
                Verb::Rm(args) => (args.paths.clone(), Vec::new()),
                Verb::Tar(args) => (args.dest().map(one).unwrap_or_default(), Vec::new()),
                Verb::Touch(args) => (args.paths.clone(), Vec::new()),
                Verb::Trim(args) => (args.images.clone(), Vec::new()),
                Verb::Truncate(args) => (args.paths.clone(), Vec::new()),
                Verb::Uuid(args) => (Vec::new(), one(&args.image)),
                Verb::Xattr(args) => (args.paths().to_vec(), Vec::new()),
                _ => (words[1..].to_vec(), words[1..].to_vec()),
            },
        };
        let here = || self.here.clone().filter(|_| self.inside);
        let paths = paths.iter().filter_map(|path| {
            let image = self.image(path, !self.inside);
            image.or_else(here)
        });
        let images = images.iter().filter_map(|image| self.image(image, true));
        paths.chain(images).collect()
    }

    /// Whether a command has directories of the host told, as no copy does.
    fn lists(&self, command: &What) -> bool {
        let What::Verb(verb) = command else {
            return false;
        };
        match &**verb {
            Verb::Diff(diff) => self.is_on_host(&diff.old) || self.is_on_host(&diff.new),
            _ => false,
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
    fn it_is_known_which_commands_write_to_images_and_which_list_directories_of_the_host() {
        for (script, writes, lists) in [
            ("ls -l; cat f; get f; cd /x; find . -name x", false, false),
            ("cp f host:.; cp f -; xattr get user.v f", false, false),
            ("tar create - .; dmesg", false, false),
            ("tar create a.tar .", false, false),
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
            let found = look(
                script.as_bytes(),
                Some(Path::new("none")),
                &Global::default(),
            );
            assert_eq!((found.writes, found.lists), (writes, lists), "{script}");
        }
        // Where there is no image yet, a name may be one of the host's.
        let found = look(b"diff a b", None, &Global::default());
        assert!(found.lists);
    }

    #[test]
    fn it_is_known_which_image_a_command_writes_to() {
        let s = tane_test_support::Scratch::new("named");
        for name in ["a", "b", "c"] {
            std::fs::write(s.join(name), "").expect("a file");
        }
        let at = |text: &str| text.replace('%', s.to_str().expect("UTF-8"));
        for (script, written) in [
            ("ls %/b:/; cp %/b:/x .; rm y", "a"),
            ("cp x %/b:/; cat %/c:/f", "b"),
            ("cd %/b:/; touch x; cd -; cat y", "b"),
            ("cd %/b:/; cd %/c:/; cd -; touch x", "b"),
            ("chmod 755 %/c:/f; tar extract %/b %/c:/", "c"),
            ("mv %/b:/x y", "ab"),
            ("rm *; rm %/b:/*", "ab"),
            ("open %/b; xattr set user.a x f", "b"),
            ("label %/c name; convert --force x %/b@1", "bc"),
            // It is the overlay that is written.
            ("open --overlay o %/b; rm x; rm %/b:/y", ""),
            ("rm %/b:/y; open --overlay o %/b", "b"),
            ("echo rm x; xattr get user.a x; cat %/b:/x", ""),
        ] {
            let first = s.join("a");
            let found = look(at(script).as_bytes(), Some(&first), &Global::default());
            let is_written = |i: &&Image| i.access == Access::Write && i.options.overlay.is_none();
            let images = found.images.iter().filter(is_written);
            let names = images.filter_map(|image| image.file.file_name());
            let mut names: Vec<_> = names.filter_map(|name| name.to_str()).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.concat(), written, "{script}");
        }
        let script = at("open --overlay o %/b; rm %/b:/y");
        let found = look(script.as_bytes(), None, &Global::default());
        assert!(found.images.iter().all(|i| i.options.overlay.is_some()));
    }
}
