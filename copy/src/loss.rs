//! What a copy can lack of what it is a copy of.

/// Something about a file that the destination does not have now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// Its user or group.
    Owner,
    /// Set-user-ID, set-group-ID or sticky bit.
    SpecialBits,
    /// Permissions.
    Mode,
    /// When it was changed or read.
    Times,
    /// Fractions of seconds of those.
    ExactTimes,
    /// An extended attribute.
    Xattr,
    /// An access control list.
    Acl,
    /// Capabilities of a program.
    Capability,
    /// That several names are one file.
    HardLink,
    /// A symlink.
    Symlink,
    /// A device node.
    Device,
    /// A fifo or socket.
    Special,
    /// Flags of chattr(1).
    Flags,
    /// The project of quotas.
    Project,
    /// That blocks are shared with other files.
    Reflink,
    /// That a directory is a subvolume.
    Subvolume,
    /// Its very name.
    Name,
    /// Something that a program which makes images left out, and told.
    Told,
}

impl Loss {
    /// All there are.
    pub const ALL: [Loss; 18] = [
        Loss::Owner,
        Loss::SpecialBits,
        Loss::Mode,
        Loss::Times,
        Loss::ExactTimes,
        Loss::Xattr,
        Loss::Acl,
        Loss::Capability,
        Loss::HardLink,
        Loss::Symlink,
        Loss::Device,
        Loss::Special,
        Loss::Flags,
        Loss::Project,
        Loss::Reflink,
        Loss::Subvolume,
        Loss::Name,
        Loss::Told,
    ];

    /// Warnings of this kind that are printed before they are only counted. Who is not
    /// root loses the owner of every file, and a FAT modes and odd seconds: one example
    /// will do.
    pub fn shown(self) -> u64 {
        match self {
            Loss::Owner | Loss::Mode | Loss::ExactTimes => 1,
            _ => 10,
        }
    }

    /// In words.
    pub fn what(self) -> &'static str {
        match self {
            Loss::Owner => "owner",
            Loss::SpecialBits => "set-user-ID or set-group-ID bit",
            Loss::Mode => "mode",
            Loss::Times => "times",
            Loss::ExactTimes => "exact times",
            Loss::Xattr => "extended attribute",
            Loss::Acl => "access control list",
            Loss::Capability => "capabilities",
            Loss::HardLink => "hard link",
            Loss::Symlink => "symlink",
            Loss::Device => "device node",
            Loss::Special => "fifo or socket",
            Loss::Flags => "flags",
            Loss::Project => "project",
            Loss::Reflink => "reflink",
            Loss::Subvolume => "subvolume",
            Loss::Name => "end of its name",
            Loss::Told => "something",
        }
    }

    /// That of an extended attribute.
    pub fn of_xattr(name: &[u8]) -> Loss {
        match name {
            b"security.capability" => Loss::Capability,
            n if n.starts_with(b"system.posix_acl") => Loss::Acl,
            _ => Loss::Xattr,
        }
    }
}
