//! How much of what was copied.

use tane_linux::Kind;

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    pub files: u64,
    pub directories: u64,
    /// Further names.
    pub links: u64,
    pub others: u64,
    /// Of data.
    pub bytes: u64,
    /// Those of them that came from the image's file directly.
    pub by_host: u64,
    pub skipped: u64,
}

impl Counts {
    pub const FIELDS: usize = 7;

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
