//! tane chown: owners and groups, by the image's own names.

use super::change::change;
use super::on_entries;
use crate::failure::{Failure, Result};
use crate::session::Global;
use crate::session::{for_each_image, Access};
use crate::users::Users;
use std::ffi::OsString;

/// Change who owns files in an image
#[derive(clap::Args)]
#[command(after_help = "\
Names are looked up in the image's own /etc/passwd and /etc/group; numbers work
always. Symlinks themselves are changed, never what they point to.

Examples:
  tane chown www-data:www-data disk.img:/var/www
  tane chown -R 1000:1000 disk.img:/home/me
  tane chown :adm disk.img:/var/log/syslog")]
pub struct Args {
    /// USER, USER:GROUP or :GROUP, by name or number
    #[arg(value_parser = owner)]
    pub owner: String,
    /// Files in images
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    pub paths: Vec<OsString>,
    /// Also everything below directories
    #[arg(short = 'R', long)]
    pub recursive: bool,
}

/// No name has a slash; what is meant is found in the image.
fn owner(text: &str) -> std::result::Result<String, String> {
    match text.contains('/') {
        true => Err("the owner comes first, the files behind it".into()),
        false => Ok(text.into()),
    }
}

/// "Leave it" in chown(2).
const SAME: u32 = u32::MAX;

pub fn run(args: Args, global: &Global) -> Result<u8> {
    for_each_image(&args.paths, Access::Write, global, |root, items| {
        let (uid, gid) = lookup(&args.owner, &Users::of(root))?;
        Ok(on_entries(root, items, |dir, name, item| {
            Ok(change(dir, name, item.path(), args.recursive, |visit| {
                let (sys, flags) = (visit.dir.sys(), libc::AT_SYMLINK_NOFOLLOW);
                sys.chown(visit.dir, visit.name, uid, gid, flags)
            }))
        }))
    })
}

fn lookup(text: &str, users: &Users) -> Result<(u32, u32)> {
    let (user, group) = text.split_once(':').unwrap_or((text, ""));
    let missing = |what: &str, name: &str, file: &str| {
        Failure::usage(format!(
            "{name}: no such {what} in the image's {file}; numbers work always"
        ))
    };
    let uid = match user {
        "" => SAME,
        name => users
            .find_user(name)
            .ok_or_else(|| missing("user", name, "/etc/passwd"))?,
    };
    let gid = match group {
        "" => SAME,
        name => users
            .find_group(name)
            .ok_or_else(|| missing("group", name, "/etc/group"))?,
    };
    if (uid, gid) == (SAME, SAME) {
        return Err(Failure::usage(
            "chown: no owner: write USER, USER:GROUP or :GROUP",
        ));
    }
    Ok((uid, gid))
}
