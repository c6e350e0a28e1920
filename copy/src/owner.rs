//! Who owns the copies.

use std::str::FromStr;

/// Whose the copies are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Owner {
    /// As in the source.
    #[default]
    Keep,
    /// One user's and group's.
    Fixed {
        /// The user.
        uid: u32,
        /// The group.
        gid: u32,
    },
}

impl Owner {
    /// The owner of a copy of what these own.
    pub fn of(self, uid: u32, gid: u32) -> (u32, u32) {
        match self {
            Owner::Keep => (uid, gid),
            Owner::Fixed { uid, gid } => (uid, gid),
        }
    }
}

impl FromStr for Owner {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "keep" => return Ok(Owner::Keep),
            "root" => return Ok(Owner::Fixed { uid: 0, gid: 0 }),
            _ => {}
        }
        let pair = text
            .split_once(':')
            .and_then(|(u, g)| Some((u.parse().ok()?, g.parse().ok()?)));
        match pair {
            Some((uid, gid)) if uid != u32::MAX && gid != u32::MAX => Ok(Owner::Fixed { uid, gid }),
            _ => Err("use keep, root or UID:GID in numbers".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_is_keep_root_or_two_numbers() {
        assert_eq!("keep".parse(), Ok(Owner::Keep));
        assert_eq!("root".parse(), Ok(Owner::Fixed { uid: 0, gid: 0 }));
        assert_eq!(
            "1000:100".parse(),
            Ok(Owner::Fixed {
                uid: 1000,
                gid: 100
            })
        );
        for bad in ["", "1000", "me:me", "1:4294967295", "-1:0"] {
            assert!(bad.parse::<Owner>().is_err(), "{bad}");
        }
    }
}
