//! How much of what was copied.

use tane_linux::Kind;

/// How much of what was copied.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Regular files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Further names.
    pub links: u64,
    /// Symlinks, devices, fifos and sockets.
    pub others: u64,
    /// Of data.
    pub bytes: u64,
    /// Those of them that came from the image's file directly.
    pub by_host: u64,
    /// Files that were there already, and stayed.
    pub skipped: u64,
}

impl Counts {
    /// How many counts there are.
    pub const FIELDS: usize = 7;

    /// These, in the order of the fields.
    pub fn of(fields: [u64; Self::FIELDS]) -> Self {
        let [files, directories, links, others, bytes, by_host, skipped] = fields;
        Counts {
            files,
            directories,
            links,
            others,
            bytes,
            by_host,
            skipped,
        }
    }

    /// All, in the order of the fields.
    pub fn each(self) -> [u64; Self::FIELDS] {
        let Counts {
            files,
            directories,
            links,
            others,
            bytes,
            by_host,
            skipped,
        } = self;
        [files, directories, links, others, bytes, by_host, skipped]
    }

    /// One more of these.
    pub fn add(&mut self, kind: Kind) {
        *match kind {
            Kind::File => &mut self.files,
            Kind::Directory => &mut self.directories,
            _ => &mut self.others,
        } += 1;
    }
}
