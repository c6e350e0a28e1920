//! tane chmod: modes, octal and symbolic.

use super::change::change;
use super::on_entries;
use crate::failure::Result;
use crate::session::Global;
use crate::session::{for_each_image, Access};
use std::ffi::OsString;
use std::str::FromStr;
use tane_linux::Kind;

/// Change the modes of files in an image
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tane chmod 0600 disk.img:/etc/ssh/ssh_host_rsa_key
  tane chmod -R u=rwX,go=rX disk.img:/srv")]
pub struct Args {
    /// Octal (0644) or symbolic (u+x,go-w)
    #[arg(allow_hyphen_values = true)]
    pub mode: Mode,
    /// Files in images
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    pub paths: Vec<OsString>,
    /// Also everything below directories
    #[arg(short = 'R', long)]
    pub recursive: bool,
}

pub fn run(args: Args, global: &Global) -> Result<u8> {
    for_each_image(&args.paths, Access::Write, global, |root, items| {
        Ok(on_entries(root, items, |dir, name, item| {
            let mode = &args.mode;
            let stat = dir.sys().lstat(dir, name)?;
            if stat.kind() == Kind::Symlink {
                // A symlink that is named itself stands for its target.
                let target = root.stat(item.path(), true)?;
                let mode = mode.applied_to(target.permissions(), target.kind() == Kind::Directory);
                let fd = root.open(item.path(), libc::O_RDONLY | libc::O_NONBLOCK)?;
                return dir.sys().fchmod(&fd, mode).map(|()| true);
            }
            Ok(change(dir, name, item.path(), args.recursive, |visit| {
                let (kind, now) = (visit.stat.kind(), visit.stat.permissions());
                let wanted = mode.applied_to(now, kind == Kind::Directory);
                if kind == Kind::Symlink || wanted == now {
                    return Ok(());
                }
                visit.dir.sys().chmod(visit.dir, visit.name, wanted)
            }))
        }))
    })
}

/// A change of mode.
#[derive(Clone, Debug)]
pub enum Mode {
    Octal(u32),
    Symbolic(Vec<Clause>),
}

#[derive(Clone, Debug)]
pub struct Clause {
    /// Which of user (0o4700), group (0o2070) and others (0o1007).
    who: u32,
    op: char,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    /// rwx as one digit; X; s; t.
    Bits {
        rwx: u32,
        x_if_useful: bool,
        set_id: bool,
        sticky: bool,
    },
    /// As the user, group or others have it: a shift of 6, 3 or 0.
    Copy(u32),
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        if text.contains('/') {
            return Err("the mode comes first, the files behind it".into());
        }
        if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
            let mode = u32::from_str_radix(text, 8).ok().filter(|m| *m <= 0o7777);
            return mode
                .map(Mode::Octal)
                .ok_or_else(|| "octal modes go up to 7777".into());
        }
        let clauses: Option<Vec<_>> = text.split(',').map(clauses).collect();
        let clauses = clauses.ok_or("use octal digits, or a form like u=rwX,go-w")?;
        Ok(Mode::Symbolic(clauses.concat()))
    }
}

/// `go-w+x`: one `who`, then one or more changes.
fn clauses(text: &str) -> Option<Vec<Clause>> {
    let at = text.find(['+', '-', '='])?;
    let who = text[..at].chars().try_fold(0, |who, c| {
        Some(
            who | match c {
                'u' => 0o4700,
                'g' => 0o2070,
                'o' => 0o1007,
                'a' => 0o7777,
                _ => return None,
            },
        )
    })?;
    // Without a "who" it is everyone; there is no umask inside an image.
    let who = if who == 0 { 0o7777 } else { who };
    let mut out = Vec::new();
    let mut rest = &text[at..];
    while let Some(op) = rest.chars().next() {
        let end = rest[1..]
            .find(['+', '-', '='])
            .map_or(rest.len(), |i| i + 1);
        out.push(Clause {
            who,
            op,
            what: what(&rest[1..end])?,
        });
        rest = &rest[end..];
    }
    Some(out)
}

fn what(text: &str) -> Option<What> {
    match text {
        "u" => return Some(What::Copy(6)),
        "g" => return Some(What::Copy(3)),
        "o" => return Some(What::Copy(0)),
        _ => {}
    }
    let (mut rwx, mut x_if_useful, mut set_id, mut sticky) = (0, false, false, false);
    for c in text.chars() {
        match c {
            'r' => rwx |= 4,
            'w' => rwx |= 2,
            'x' => rwx |= 1,
            'X' => x_if_useful = true,
            's' => set_id = true,
            't' => sticky = true,
            _ => return None,
        }
    }
    Some(What::Bits {
        rwx,
        x_if_useful,
        set_id,
        sticky,
    })
}

impl Mode {
    pub fn applied_to(&self, mode: u32, is_dir: bool) -> u32 {
        match self {
            // As chmod does: a short octal mode leaves a directory's set-ID bits.
            Mode::Octal(octal) if is_dir && *octal <= 0o777 => octal | mode & 0o6000,
            Mode::Octal(octal) => *octal,
            Mode::Symbolic(clauses) => clauses.iter().fold(mode, |m, c| c.applied_to(m, is_dir)),
        }
    }
}

impl Clause {
    fn applied_to(&self, mode: u32, is_dir: bool) -> u32 {
        let bits = match self.what {
            What::Copy(shift) => (mode >> shift & 7) * 0o111,
            What::Bits {
                rwx,
                x_if_useful,
                set_id,
                sticky,
            } => {
                let x = x_if_useful && (is_dir || mode & 0o111 != 0);
                ((rwx | u32::from(x)) * 0o111)
                    | if set_id { 0o6000 } else { 0 }
                    | if sticky { 0o1000 } else { 0 }
            }
        };
        let bits = bits & self.who;
        match self.op {
            '+' => mode | bits,
            '-' => mode & !bits,
            _ => {
                // "=" leaves a directory's set-ID bits unless they are named.
                let keep = if is_dir { 0o6000 } else { 0 };
                mode & !(self.who & !keep) | bits
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(text: &str, mode: u32, is_dir: bool) -> u32 {
        text.parse::<Mode>().expect(text).applied_to(mode, is_dir)
    }

    #[test]
    fn modes_change_as_with_chmod() {
        assert_eq!(change("644", 0o777, false), 0o644);
        assert_eq!(change("u+x", 0o644, false), 0o744);
        assert_eq!(change("go-w", 0o666, false), 0o644);
        assert_eq!(change("u=rwX,go=rX", 0o600, false), 0o644);
        assert_eq!(change("u=rwX,go=rX", 0o700, false), 0o755);
        assert_eq!(change("a+X", 0o644, true), 0o755);
        assert_eq!(change("u+s", 0o755, false), 0o4755);
        assert_eq!(change("+t", 0o777, true), 0o1777);
        assert_eq!(change("g=u", 0o640, false), 0o660);
        assert_eq!(change("u-w+x", 0o600, false), 0o500);
        assert_eq!(change("755", 0o2700, true), 0o2755);
        assert_eq!(change("0755", 0o4700, false), 0o755);
        for bad in ["", "8", "77777", "u", "u+q", "z+r", "u+x,"] {
            assert!(bad.parse::<Mode>().is_err(), "{bad}");
        }
    }
}
