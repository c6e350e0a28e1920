//! The requests that ioctl(2) makes: chattr(1), lsattr(1), and `tane umount`.

use crate::served::{Result, Served};
use crate::ROOT;
use tane_linux::{Errno, FlagsData, Kind};

/// Of the root, and ours: writes everything to the image, and says which process
/// serves it and ends with it (4 bytes); 0: it goes on.
pub const SYNC: u32 = 2 << 30 | 4 << 16 | 0xf5 << 8 | 0x74;

impl Served {
    /// What the request answers, in `room` bytes.
    pub(crate) fn ioctl(
        &self,
        id: u64,
        request: u32,
        given: &[u8],
        room: usize,
    ) -> Result<Vec<u8>> {
        if request == SYNC && id == ROOT {
            self.sync()?;
            let process = match self.manner.ends_with_process {
                true => std::process::id(),
                false => 0,
            };
            return Ok(process.to_ne_bytes().to_vec());
        }
        let mut data = FlagsData::default();
        let mut bytes = to_bytes(&data);
        let fits = given.len() <= bytes.len() && room <= bytes.len();
        let to = bytes.get_mut(..given.len()).filter(|_| fits);
        to.ok_or(Errno(libc::ENOTTY))?.copy_from_slice(given);
        for (word, bytes) in data.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
        }
        self.flags(id, request, &mut data)?;
        bytes = to_bytes(&data);
        bytes.truncate(room);
        Ok(bytes)
    }

    fn flags(&self, id: u64, request: u32, data: &mut FlagsData) -> Result<()> {
        let (node, open) = self.node(id)?;
        if !matches!(node.kind, Kind::File | Kind::Directory) {
            return Err(Errno(libc::ENOTTY));
        }
        self.sys.flags_ioctl(&open.fd, request, data)?;
        match node.kind {
            Kind::Directory => self.learn_case(&node),
            _ => Ok(()),
        }
    }
}

fn to_bytes(data: &FlagsData) -> Vec<u8> {
    data.iter().flat_map(|word| word.to_ne_bytes()).collect()
}
