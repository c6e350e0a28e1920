//! Names of users and groups: those of the image, never those of the host.

use crate::sys::Root;
use std::collections::HashMap;

#[derive(Default)]
pub struct Users {
    users: Vec<(String, u32)>,
    groups: Vec<(String, u32)>,
    user_names: HashMap<u32, usize>,
    group_names: HashMap<u32, usize>,
}

/// No image's passwd is longer than this; a hostile one might be.
const LIMIT: usize = 4 << 20;

impl Users {
    /// Reads the image's /etc/passwd and /etc/group, if there are any.
    pub fn of(root: &Root) -> Users {
        let users = parse(&contents(root, b"/etc/passwd"));
        let groups = parse(&contents(root, b"/etc/group"));
        let index = |list: &[(String, u32)]| {
            list.iter()
                .enumerate()
                .rev()
                .map(|(i, (_, id))| (*id, i))
                .collect()
        };
        let (user_names, group_names) = (index(&users), index(&groups));
        Users {
            users,
            groups,
            user_names,
            group_names,
        }
    }

    pub fn user(&self, uid: u32) -> Option<&str> {
        self.user_names.get(&uid).map(|&i| self.users[i].0.as_str())
    }

    pub fn group(&self, gid: u32) -> Option<&str> {
        self.group_names
            .get(&gid)
            .map(|&i| self.groups[i].0.as_str())
    }

    /// A name or a number.
    pub fn find_user(&self, text: &str) -> Option<u32> {
        find(&self.users, text)
    }

    pub fn find_group(&self, text: &str) -> Option<u32> {
        find(&self.groups, text)
    }
}

fn find(list: &[(String, u32)], text: &str) -> Option<u32> {
    let named = list
        .iter()
        .find(|(name, _)| name == text)
        .map(|(_, id)| *id);
    named.or_else(|| text.parse().ok().filter(|&id| id != u32::MAX))
}

/// Lines of `name:password:id:…`, without names that could fool a reader.
fn parse(bytes: &[u8]) -> Vec<(String, u32)> {
    let line = |line: &[u8]| {
        let line = std::str::from_utf8(line).ok()?;
        let mut fields = line.split(':');
        let (name, id) = (fields.next()?, fields.nth(1)?);
        let sane = !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic());
        Some((name.to_string(), id.parse().ok()?)).filter(|_| sane)
    };
    bytes.split(|&b| b == b'\n').filter_map(line).collect()
}

fn contents(root: &Root, path: &[u8]) -> Vec<u8> {
    // O_NONBLOCK: it might be a fifo.
    let Ok(fd) = root.open(path, libc::O_RDONLY | libc::O_NONBLOCK) else {
        return Vec::new();
    };
    let sys = root.sys();
    let size = sys.fstat(&fd).map_or(0, |s| s.size as usize);
    let mut bytes = vec![0; size.min(LIMIT)];
    let n = sys.pread_all(&fd, &mut bytes, 0).unwrap_or(0);
    bytes.truncate(n);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwd_lines_give_names_and_numbers() {
        let list = parse(b"root:x:0:0:root:/root:/bin/sh\n# no\nbad\nme:x:1000:\n\x1b[:x:1:\n");
        assert_eq!(list, [("root".to_string(), 0), ("me".to_string(), 1000)]);
        assert_eq!(find(&list, "me"), Some(1000));
        assert_eq!(find(&list, "77"), Some(77));
        assert_eq!(find(&list, "you"), None);
    }
}
