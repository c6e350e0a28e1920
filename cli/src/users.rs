//! Names of users and groups: those of the image, never those of the host.

use std::collections::HashMap;
use tane_linux::Root;

#[derive(Default)]
pub struct Users {
    users: Vec<(String, u32)>,
    /// Of each user, in the same order.
    more: Vec<More>,
    groups: Vec<(String, u32)>,
    user_names: HashMap<u32, usize>,
    group_names: HashMap<u32, usize>,
}

/// What else there is of a user.
#[derive(Debug, PartialEq)]
struct More {
    group: Option<u32>,
    home: String,
}

/// No image's passwd is longer than this; a hostile one might be.
const LIMIT: usize = 4 << 20;

impl Users {
    /// Reads the image's /etc/passwd and /etc/group, if there are any.
    pub fn of(root: &Root) -> Users {
        let users = parse(&contents(root, b"/etc/passwd"));
        let (users, more) = users.into_iter().unzip();
        let groups = parse(&contents(root, b"/etc/group"));
        let groups = groups.into_iter().map(|(group, _)| group).collect();
        let index = |list: &Vec<(String, u32)>| {
            list.iter()
                .enumerate()
                .rev()
                .map(|(i, (_, id))| (*id, i))
                .collect()
        };
        let (user_names, group_names) = (index(&users), index(&groups));
        Users {
            users,
            more,
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

    /// The group that this user's processes have from the beginning.
    pub fn group_of(&self, uid: u32) -> Option<u32> {
        self.more_of(uid)?.group
    }

    /// The directory that this user's shells begin in, if there is a path.
    pub fn home_of(&self, uid: u32) -> Option<&str> {
        let home = &*self.more_of(uid)?.home;
        home.starts_with('/').then_some(home)
    }

    fn more_of(&self, uid: u32) -> Option<&More> {
        self.user_names.get(&uid).map(|&i| &self.more[i])
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

/// A name and its number, and what is behind them.
type Line = ((String, u32), More);

/// Lines of `name:password:id:…`, without names that could fool a reader.
fn parse(bytes: &[u8]) -> Vec<Line> {
    let line = |line: &[u8]| {
        let line = std::str::from_utf8(line).ok()?;
        let mut fields = line.split(':');
        let (name, id) = (fields.next()?, fields.nth(1)?);
        let group = fields.next().and_then(|group| group.parse().ok());
        let home = fields.nth(1).unwrap_or_default().to_owned();
        let sane = !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic());
        let more = More { group, home };
        Some(((name.to_string(), id.parse().ok()?), more)).filter(|_| sane)
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
        let lines = parse(b"root:x:0:7:root:/root:/bin/sh\n# no\nbad\nme:x:1000:\n\x1b[:x:1:\n");
        let (list, more): (Vec<_>, Vec<_>) = lines.into_iter().unzip();
        let of = |group, home: &str| More {
            group,
            home: home.into(),
        };
        assert_eq!(more, [of(Some(7), "/root"), of(None, "")]);
        assert_eq!(list, [("root".to_string(), 0), ("me".to_string(), 1000)]);
        assert_eq!(find(&list, "me"), Some(1000));
        assert_eq!(find(&list, "77"), Some(77));
        assert_eq!(find(&list, "you"), None);
    }
}
