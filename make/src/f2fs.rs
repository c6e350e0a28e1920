//! What mkfs.f2fs puts into a file system of the machine that it runs on
//! (fs/f2fs: `struct f2fs_super_block` of linux/f2fs_fs.h).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Two superblocks, in the first two blocks.
const PLACES: [u64; 2] = [1024, 4096 + 1024];
const MAGIC: [u8; 4] = 0xf2f5_2010_u32.to_le_bytes();
/// `version` and `init_version`: the host's Linux, as /proc/version has it, by which
/// fsck.f2fs knows whether another has mounted it since.
const VERSIONS: u64 = 0x684;
const VERSIONS_LEN: usize = 2 * 256;

/// Forget which Linux the host had. The superblocks have no checksum unless their mkfs is
/// asked for one.
pub fn forget_host(file: &File) -> io::Result<()> {
    for place in PLACES {
        let mut magic = [0; 4];
        file.read_exact_at(&mut magic, place)?;
        if magic != MAGIC {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "mkfs.f2fs made no superblock where one belongs",
            ));
        }
        file.write_all_at(&[0; VERSIONS_LEN], place + VERSIONS)?;
    }
    Ok(())
}
