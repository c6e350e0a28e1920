//! What a file system keeps of what Linux has.

/// Which names it can have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Names {
    /// UTF-16 without what MS-DOS uses itself, and no case.
    Windows,
    /// What Unicode had when two bytes were enough.
    Plane,
    /// All of UTF-16.
    Unicode,
    /// Any bytes.
    Bytes,
}

#[derive(Clone, Copy)]
pub struct Keeps {
    pub names: Names,
    /// Bytes of the longest name.
    pub name_max: usize,
    /// Granularity of times, in nanoseconds.
    pub times: u64,
    /// Modes and owners, the latter up to this number.
    pub owners: Option<u32>,
    pub hard_links: bool,
    pub link_counts: bool,
    /// The longest target of a symbolic link.
    pub symlinks: Option<usize>,
    /// Named pipes, sockets and devices, whose minor numbers are up to this.
    pub devices: Option<u32>,
    pub device_numbers: bool,
    /// The largest value of an attribute.
    pub xattrs: Option<usize>,
    pub acls: bool,
    /// Holes take no room.
    pub holes: bool,
    /// So do those that are made afterwards: fallocate(2).
    pub punches: bool,
    /// Appending to what was made longer leaves zeroes between.
    pub appends_to_holes: bool,
}

/// A Linux file system with all there is.
pub const ALL: Keeps = Keeps {
    names: Names::Bytes,
    name_max: 255,
    times: 1,
    owners: Some(u32::MAX),
    hard_links: true,
    link_counts: true,
    symlinks: Some(1000),
    devices: Some(u32::MAX),
    device_numbers: true,
    xattrs: Some(2000),
    acls: true,
    holes: true,
    punches: true,
    appends_to_holes: true,
};

/// Names and contents.
pub const FILES: Keeps = Keeps {
    names: Names::Windows,
    name_max: 255,
    times: 2_000_000_000,
    owners: None,
    hard_links: false,
    link_counts: false,
    symlinks: None,
    devices: None,
    device_numbers: true,
    xattrs: None,
    acls: false,
    holes: false,
    punches: false,
    appends_to_holes: true,
};
