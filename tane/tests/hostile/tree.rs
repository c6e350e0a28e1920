//! What the sound images hold: something of everything, its content recognisable.

use crate::medium::Random;
use tane::Tree;

/// Each 16 bytes of each file begin with this, so that metadata is what does not.
pub const MAGIC: &[u8; 8] = b"content\n";

fn content(len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 16);
    for i in 0..len.div_ceil(16) as u64 {
        bytes.extend(MAGIC);
        bytes.extend(i.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Deep trees, large directories, attributes, links, special files: as far as
/// the file system goes; what it cannot keep it refuses.
pub fn populate(tree: &Tree) -> tane::Result<()> {
    let mut random = Random(7);
    tree.create_dir_all("dir/sub/deep")?;
    for i in 0..150 {
        tree.write(format!("dir/a name of some length {i}"), [])?;
    }
    for i in 0..20 {
        let len = random.below(20_000) as usize;
        tree.write(format!("dir/sub/{i}"), content(len))?;
    }
    let holes = tree.create("holes")?;
    for i in 0..100 {
        if holes.write_all_at(&content(1024), i * 8192).is_err() {
            break;
        }
    }
    tree.write("late", content(5000))?;
    let target = "x/".repeat(120) + "y";
    let _ = tree.symlink("dir/sub", "short");
    let _ = tree.symlink(target, "long");
    let _ = tree.hard_link("holes", "dir/hard");
    let _ = tree.mknod("fifo", libc::S_IFIFO | 0o644, 0);
    for (key, len) in [("user.small", 20), ("user.large", 700)] {
        let value = random.bytes(len);
        let _ = tree.set_xattr("dir", key, &value, 0);
        let _ = tree.set_xattr("late", key, &value, 0);
    }
    Ok(())
}
