//! tane xattr: extended attributes, ACLs and capabilities among them.

use super::entry;
use crate::failure::{Failure, Result, SOME_FAILED};
use crate::names::{self, shown};
use crate::output::Output;
use crate::session::Global;
use crate::session::{for_each_image, Access, Item};
use crate::tell;
use crate::walk::{walk, Next, Visit, Visitor};
use serde_json::{Map, Value};
use std::ffi::{CStr, CString, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use tane::images::open_host_file;
use tane_linux::{Errno, Fd, Target, Xattrs};

/// List, read, set and remove extended attributes of files in an image
#[derive(clap::Args)]
#[command(after_help = "\
Names begin with user., trusted., security. or system.; ACLs are
system.posix_acl_access and system.posix_acl_default, capabilities
security.capability, all as the kernel has them in binary. Symlinks themselves are
meant, never what they point to.

Examples:
  tane xattr list -R disk.img:/usr
  tane xattr get user.note disk.img:/srv/data
  tane xattr set user.note 'from the old server' disk.img:/srv/data
  tane xattr set --hex security.capability 0100000200200000000000000000000000000000 \\
                 disk.img:/usr/bin/ping
  tane xattr remove user.note disk.img:/srv/data")]
pub struct Args {
    #[command(subcommand)]
    pub what: What,
}

#[derive(clap::Subcommand)]
pub enum What {
    /// Show all attributes of files
    List {
        /// Files in images
        #[arg(required = true, value_name = "IMAGE:/PATH")]
        paths: Vec<OsString>,
        /// Also of everything below directories that has any
        #[arg(short = 'R', long)]
        recursive: bool,
    },
    /// Write the value of an attribute to standard output, as it is
    Get {
        #[arg(value_name = "NAME")]
        name: OsString,
        /// Files in images; with several, each value has a line with the path
        #[arg(required = true, value_name = "IMAGE:/PATH")]
        paths: Vec<OsString>,
        /// In hexadecimal
        #[arg(long)]
        hex: bool,
    },
    /// Set an attribute
    #[command(override_usage = "tane xattr set [OPTIONS] <NAME> <VALUE> <IMAGE:/PATH>...")]
    Set {
        #[arg(value_name = "NAME")]
        name: OsString,
        /// The value, unless --file has it
        #[arg(
            required = true,
            value_name = "VALUE|IMAGE:/PATH",
            allow_hyphen_values = true
        )]
        value_and_paths: Vec<OsString>,
        /// VALUE is in hexadecimal
        #[arg(long, conflicts_with = "file")]
        hex: bool,
        /// The value is the content of this file on the host; - is standard input
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Remove an attribute
    Remove {
        #[arg(value_name = "NAME")]
        name: OsString,
        /// Files in images
        #[arg(required = true, value_name = "IMAGE:/PATH")]
        paths: Vec<OsString>,
    },
}

impl Args {
    /// Whether it writes to an image.
    pub fn changes(&self) -> bool {
        matches!(self.what, What::Set { .. } | What::Remove { .. })
    }

    /// The files.
    pub fn paths(&self) -> &[OsString] {
        match &self.what {
            What::List { paths, .. } | What::Get { paths, .. } | What::Remove { paths, .. } => {
                paths
            }
            What::Set {
                value_and_paths,
                file,
                ..
            } => &value_and_paths[usize::from(file.is_none())..],
        }
    }
}

/// XATTR_SIZE_MAX
const LONGEST: u64 = 65536;

pub fn run(args: Args, global: &Global) -> Result<u8> {
    match args.what {
        What::List { paths, recursive } => list(&paths, recursive, global),
        What::Get { name, paths, hex } => {
            let (name, paths) = in_order(name, paths, 0)?;
            get(&attribute(&name)?, &paths, hex, global)
        }
        What::Set {
            name,
            value_and_paths,
            hex,
            file,
        } => {
            let values = usize::from(file.is_none());
            let (name, words) = in_order(name, value_and_paths, values)?;
            let (value, paths) = value(&words, hex, file)?;
            set(&attribute(&name)?, &value, paths, global)
        }
        What::Remove { name, paths } => {
            let (name, paths) = in_order(name, paths, 0)?;
            remove(&attribute(&name)?, &paths, global)
        }
    }
}

/// How the names of attributes begin, of all that Linux and its file systems know.
const NAMESPACES: [&str; 6] = [
    "user.",
    "trusted.",
    "security.",
    "system.",
    "btrfs.",
    "osx.",
];

/// The name, and the words behind it: `values` for the value, and the files. Who put a
/// file first means the same.
fn in_order(
    name: OsString,
    mut words: Vec<OsString>,
    values: usize,
) -> Result<(OsString, Vec<OsString>)> {
    let is_name = |word: &OsString| {
        let bytes = word.as_bytes();
        let known = NAMESPACES.iter().any(|n| bytes.starts_with(n.as_bytes()));
        known && !bytes.windows(2).any(|w| w == b":/")
    };
    if is_name(&name) || !words.first().is_some_and(is_name) {
        return Ok((name, words));
    }
    if words.len() != 1 + values {
        let value = if values == 1 { " VALUE" } else { "" };
        let text = format!("xattr: the name comes first: NAME{value} IMAGE:/PATH...");
        return Err(Failure::usage(text));
    }
    let second = words.remove(0);
    words.push(name);
    Ok((second, words))
}

fn attribute(name: &OsString) -> Result<CString> {
    CString::new(name.as_bytes()).map_err(|_| Failure::usage("xattr: a NUL in a name"))
}

fn list(paths: &[OsString], recursive: bool, global: &Global) -> Result<u8> {
    let mut out = Output::new();
    let code = for_each_image(paths, Access::Read, global, |root, items| {
        let mut lister = Lister {
            image: items[0].at.image.as_os_str().as_encoded_bytes(),
            many: recursive || paths.len() > 1,
            recursive,
            json: global.json,
            out: &mut out,
            all_well: true,
        };
        for item in items {
            // Else a missing one would be told by its path alone.
            let found = root.stat(item.path(), item.path().ends_with(b"/"));
            match found.and_then(|_| entry(root, item.path())) {
                Ok((dir, name)) => walk(&dir, &name, item.path(), &mut lister)?,
                Err(e) => lister.all_well = item.complain(e),
            }
        }
        Ok(lister.all_well)
    })?;
    out.flush()?;
    Ok(code)
}

struct Lister<'r> {
    image: &'r [u8],
    many: bool,
    recursive: bool,
    json: bool,
    out: &'r mut Output,
    all_well: bool,
}

impl Lister<'_> {
    fn print(&mut self, path: &[u8], xattrs: &Xattrs) -> Result<()> {
        if self.json {
            let mut object = Map::new();
            names::put(&mut object, "image", self.image);
            names::put(&mut object, "path", path);
            object.insert("xattrs".into(), json(xattrs));
            return self.out.json(&object.into());
        }
        for (name, value) in xattrs.iter() {
            if self.many {
                self.out.text(&format!("{}: ", shown(path)))?;
            }
            let (name, value) = (shown(name.to_bytes()), shown(value));
            self.out.line(&format!("{name} = {value}"))?;
        }
        Ok(())
    }
}

impl Visitor for Lister<'_> {
    type Error = Failure;

    fn visit(&mut self, visit: &Visit) -> Result<Next> {
        if visit.after {
            return Ok(Next::Past);
        }
        match Xattrs::of_entry(visit.dir, visit.name) {
            // Of what is named, "none" is an answer.
            Ok(x) if !x.packed.is_empty() || visit.depth == 0 => self.print(visit.path, &x)?,
            Ok(_) => {}
            Err(e) => self.unreadable(visit.path, e),
        }
        Ok(match self.recursive {
            true => Next::Into,
            false => Next::Past,
        })
    }

    fn unreadable(&mut self, path: &[u8], error: Errno) {
        self.all_well = false;
        tell::failure(&Failure::file(path, error));
    }
}

/// As `stat` has them.
pub fn json(xattrs: &Xattrs) -> Value {
    let one = |(name, value): (&CStr, &[u8])| {
        let mut x = Map::new();
        names::put(&mut x, "name", name.to_bytes());
        x.insert("value_hex".into(), names::hex(value).into());
        Value::from(x)
    };
    xattrs.iter().map(one).collect()
}

/// Runs `work` on each file; tells of a missing attribute by its name.
fn on_each(
    paths: &[OsString],
    name: &CStr,
    access: Access,
    global: &Global,
    mut work: impl FnMut(&Fd, &CStr, &Item) -> std::result::Result<Result<()>, Errno>,
) -> Result<u8> {
    for_each_image(paths, access, global, |root, items| {
        let mut all_well = true;
        for item in items {
            crate::interrupt::check()?;
            let done = entry(root, item.path()).and_then(|(dir, file)| work(&dir, &file, item));
            all_well &= match done {
                Ok(result) => result.map(|()| true)?,
                Err(Errno(libc::ENODATA)) => {
                    let attribute = names::plain(name.to_bytes());
                    item.complain_of(&format!("has no attribute {attribute}"))
                }
                Err(Errno(libc::EOPNOTSUPP)) => {
                    let attribute = names::plain(name.to_bytes());
                    item.complain_of(&format!(
                        "cannot have an attribute {attribute}: names begin with user., \
                         trusted., security. or system., and not every file system has all \
                         of them"
                    ))
                }
                Err(e) => item.complain(e),
            };
        }
        Ok(all_well)
    })
}

fn get(name: &CStr, paths: &[OsString], hex: bool, global: &Global) -> Result<u8> {
    let mut out = Output::new();
    let mut buffer = vec![0; LONGEST as usize];
    let code = on_each(paths, name, Access::Read, global, |dir, file, item| {
        let n = Target::Entry(dir, file).get(name, &mut buffer)?;
        let value = &buffer[..n];
        if global.json {
            let mut object = Map::new();
            let image = item.at.image.as_os_str().as_encoded_bytes();
            names::put(&mut object, "image", image);
            names::put(&mut object, "path", item.path());
            names::put(&mut object, "name", name.to_bytes());
            object.insert("value_hex".into(), names::hex(value).into());
            return Ok(out.json(&object.into()));
        }
        let text = match hex {
            true => names::hex(value).into(),
            false => shown(value),
        };
        Ok(match paths.len() {
            1 if hex || out.is_terminal => out.line(&text),
            1 => out.bytes(value),
            _ => out.line(&format!("{}: {text}", shown(item.path()))),
        })
    })?;
    out.flush()?;
    Ok(code)
}

/// What `set` is given: the value, and the files.
fn value(words: &[OsString], hex: bool, file: Option<PathBuf>) -> Result<(Vec<u8>, &[OsString])> {
    let few = || Failure::usage("xattr set: write NAME VALUE IMAGE:/PATH...");
    if let Some(file) = file {
        let mut value = Vec::new();
        let read = match file.as_os_str() == "-" {
            true => std::io::stdin().take(LONGEST + 1).read_to_end(&mut value),
            false => open_host_file(&file, false, 0)
                .and_then(|f| f.take(LONGEST + 1).read_to_end(&mut value)),
        };
        let fail = |e| Failure::new(SOME_FAILED, format!("{}: {e}", file.display()));
        read.map_err(fail)?;
        return Ok((value, words));
    }
    let (value, paths) = words.split_first().ok_or_else(few)?;
    if paths.is_empty() {
        return Err(few());
    }
    let value = value.as_bytes();
    if !hex {
        return Ok((value.to_vec(), paths));
    }
    let bytes = unhex(value.strip_prefix(b"0x").unwrap_or(value));
    let wrong = || Failure::usage("xattr set --hex: use pairs of hexadecimal digits");
    Ok((bytes.ok_or_else(wrong)?, paths))
}

fn unhex(digits: &[u8]) -> Option<Vec<u8>> {
    let digit = |c: u8| char::from(c).to_digit(16);
    let pair = |pair: &[u8]| Some((digit(pair[0])? << 4 | digit(*pair.get(1)?)?) as u8);
    digits.chunks(2).map(pair).collect()
}

fn set(name: &CStr, value: &[u8], paths: &[OsString], global: &Global) -> Result<u8> {
    on_each(paths, name, Access::Write, global, |dir, file, _| {
        Target::Entry(dir, file).set(name, value).map(Ok)
    })
}

fn remove(name: &CStr, paths: &[OsString], global: &Global) -> Result<u8> {
    on_each(paths, name, Access::Write, global, |dir, file, _| {
        Target::Entry(dir, file).remove(name).map(Ok)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_is_pairs_of_digits() {
        assert_eq!(unhex(b"00fFa0"), Some(vec![0, 255, 160]));
        assert_eq!(unhex(b""), Some(vec![]));
        assert_eq!(unhex(b"0"), None);
        assert_eq!(unhex(b"0g"), None);
    }
}
