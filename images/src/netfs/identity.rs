//! Whom a server is told that comes, where that is numbers: a user of this host.

use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;

/// What AUTH_SYS has room for, beside the group of the user.
const MOST_GROUPS: usize = 16;
/// Bytes for an entry of the host's list of users.
const ROOM: usize = 16 << 10;

/// A user and his groups, by their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub uid: u32,
    pub gid: u32,
    /// Further groups, 16 at most.
    pub groups: Vec<u32>,
}

impl Identity {
    /// The user whose process this is.
    pub fn own() -> Identity {
        // SAFETY: no memory involved; then as many numbers as there is room for.
        unsafe {
            let (uid, gid) = (libc::geteuid(), libc::getegid());
            let count = libc::getgroups(0, std::ptr::null_mut()).max(0);
            let mut groups = vec![0; count as usize];
            let count = libc::getgroups(count, groups.as_mut_ptr()).max(0);
            groups.truncate(count as usize);
            Identity::new(uid, gid, groups)
        }
    }

    /// The user that this host calls so, with the groups that he has here; or a number. Of one
    /// that the host does not know there is a group of the same number, and no other.
    ///
    /// Errors: NotFound, the host knows no such name.
    pub fn of(user: &str) -> io::Result<Identity> {
        let name = CString::new(user)?;
        let mut room = [0; ROOM];
        let mut entry = MaybeUninit::<libc::passwd>::uninit();
        let mut found = std::ptr::null_mut();
        let (at, len) = (room.as_mut_ptr(), room.len());
        let number = user.parse();
        // SAFETY: room for the entry and for what it points to, and its true length.
        unsafe {
            match number {
                Ok(uid) => libc::getpwuid_r(uid, entry.as_mut_ptr(), at, len, &mut found),
                Err(_) => libc::getpwnam_r(name.as_ptr(), entry.as_mut_ptr(), at, len, &mut found),
            };
        }
        if found.is_null() {
            return match number {
                Ok(number) => Ok(Identity::new(number, number, Vec::new())),
                Err(_) => {
                    let text = format!("this host knows no user {user}: write a number");
                    Err(io::Error::new(io::ErrorKind::NotFound, text))
                }
            };
        }
        // SAFETY: it was found, and `room` is still there.
        let (name, uid, gid) = unsafe {
            let entry = &*found;
            (CStr::from_ptr(entry.pw_name), entry.pw_uid, entry.pw_gid)
        };
        let mut groups = vec![0; 1 << 10];
        let mut count = groups.len() as libc::c_int;
        // SAFETY: a name, and as many numbers as there is room for.
        unsafe { libc::getgrouplist(name.as_ptr(), gid, groups.as_mut_ptr(), &mut count) };
        groups.truncate(count.max(0) as usize);
        Ok(Identity::new(uid, gid, groups))
    }

    fn new(uid: u32, gid: u32, mut groups: Vec<u32>) -> Identity {
        groups.retain(|group| *group != gid);
        groups.truncate(MOST_GROUPS);
        Identity { uid, gid, groups }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// What id(1) says.
    fn id(words: &[&str]) -> Vec<u32> {
        let output = Command::new("id").args(words).output().expect("id");
        let text = String::from_utf8(output.stdout).expect("numbers");
        let words = text.split_whitespace();
        words.map(|word| word.parse().expect("a number")).collect()
    }

    #[test]
    fn users_have_the_numbers_that_id_shows() {
        for (found, user) in [
            (Identity::own(), &[][..]),
            (Identity::of("root").expect("root"), &["root"]),
            (Identity::of("0").expect("root"), &["root"]),
            (Identity::of("daemon").expect("daemon"), &["daemon"]),
        ] {
            let of = |option| id(&[&[option], user].concat());
            assert_eq!(vec![found.uid], of("-u"));
            assert_eq!(vec![found.gid], of("-g"));
            let mut all: Vec<u32> = of("-G");
            all.retain(|group| *group != found.gid);
            all.truncate(MOST_GROUPS);
            assert_eq!(found.groups, all);
        }
    }

    #[test]
    fn a_number_needs_no_entry_and_a_name_does() {
        let found = Identity::of("4123456").expect("a number");
        assert_eq!(found, Identity::new(4123456, 4123456, Vec::new()));
        let error = Identity::of("no-such-user").expect_err("nobody");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
