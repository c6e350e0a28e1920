//! Damaged archives and specifications: whatever is in them, reading them ends, with an
//! error or without, and takes no more than they are large.

use super::labels::Labels;
use super::layer::Layers;
use super::oci::{self, Store};
use super::tree::{parent_and_name, plain_stat, Content, Node, Tree, ROOT};
use super::{mtree, xattrs};
use crate::means::Direct;
use sha2::{Digest as _, Sha256};
use std::io::Cursor;
use std::process::Command;
use tane_copy::tar::header;

const SEEDS: u64 = 300;

/// Numbers that are the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }

    fn byte(&mut self) -> u8 {
        let odd = [
            0, 1, b'/', b'.', b'=', b'\\', b'\n', b' ', b'0', b'7', b'9', 0x7f, 0x80, 0xff,
        ];
        match self.below(2) {
            0 => odd[self.below(odd.len())],
            _ => self.below(256) as u8,
        }
    }

    /// Some bytes changed, a piece doubled, left out or moved.
    fn damage(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..1 + self.below(8) {
            let (at, len) = (self.below(bytes.len()), 1 + self.below(40));
            let end = (at + len).min(bytes.len());
            match self.below(8) {
                0 => drop(bytes.drain(at..end)),
                1 => bytes.extend_from_within(at..end),
                2 => bytes.truncate(end.max(1)),
                3 => {
                    let piece = bytes[at..end].to_vec();
                    let to = self.below(bytes.len());
                    drop(bytes.splice(to..to, piece));
                }
                _ => bytes[at] = self.byte(),
            }
        }
    }
}

/// An archive by GNU tar with long names, links and a sparse file.
fn archive(format: &str) -> Vec<u8> {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let n = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let name = format!("tane-hostile-{}-{n}", std::process::id());
    let dir = std::env::temp_dir().join(name);
    let long = "a-long-name-".repeat(12);
    std::fs::create_dir_all(dir.join(&long)).expect("a directory");
    std::fs::write(dir.join(&long).join("file"), [7; 3000]).expect("a file");
    std::fs::hard_link(dir.join(&long).join("file"), dir.join("link")).expect("a link");
    std::fs::write(dir.join(".wh.gone"), "").expect("a whiteout");
    let sparse = std::fs::File::create(dir.join("sparse")).expect("a file");
    for at in [1 << 20, 3 << 20, 5 << 20] {
        std::os::unix::fs::FileExt::write_all_at(&sparse, b"data", at).expect("written");
    }
    let mut tar = Command::new("tar");
    tar.arg(format!("--format={format}"))
        .args(["-S", "-C"])
        .arg(&dir)
        .args(["-cf", "-", "."]);
    let made = tar.output().expect("tar");
    let _ = std::fs::remove_dir_all(&dir);
    assert!(made.status.success());
    made.stdout
}

fn read(archive: Vec<u8>) -> std::io::Result<()> {
    Layers::new(true, &Direct::new()).stream(Box::new(Cursor::new(archive)))
}

#[test]
fn damaged_archives_end() {
    for format in ["pax", "gnu"] {
        let sound = archive(format);
        read(sound.clone()).expect("sound");
        let mut errors = 0;
        for seed in 0..SEEDS {
            let mut random = Random(seed);
            let mut bytes = sound.clone();
            for _ in 0..1 + random.below(6) {
                let block = random.below(bytes.len() / 512) * 512;
                let field = block + random.below(512);
                for byte in &mut bytes[field..(field + 1 + random.below(8)).min(block + 512)] {
                    *byte = random.byte();
                }
                // The checksum is right again in three of four.
                let block = &mut bytes[block..block + 512];
                if let (true, Ok(block)) = (random.below(4) > 0, <&mut [u8; 512]>::try_from(block))
                {
                    block[148..156].fill(b' ');
                    let sum = header::sum(block);
                    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
                }
            }
            errors += u64::from(read(bytes).is_err());
        }
        assert!(errors > 0 && errors < SEEDS, "{format}: {errors} errors");
    }
}

fn each_seed(sound: &str, mut read: impl FnMut(&[u8]) -> bool) {
    assert!(read(sound.as_bytes()), "what is sound is read");
    let understood = (0..SEEDS * 4).filter(|seed| {
        let mut bytes = sound.as_bytes().to_vec();
        Random(*seed).damage(&mut bytes);
        read(&bytes)
    });
    assert!(
        (understood.count() as u64) < SEEDS * 4,
        "nothing is refused"
    );
}

fn tree() -> Tree {
    let mut tree = Tree::new();
    let etc = tree.directory(&[b"etc"], 0);
    for (dir, name) in [(etc, &b"a b"[..]), (ROOT, b"file")] {
        tree.put(dir, name, Node::new(plain_stat(libc::S_IFREG | 0o600)));
    }
    tree
}

/// An archive of these files, as it was read.
fn stored(files: &[(String, Vec<u8>)]) -> Tree {
    let place = std::env::temp_dir();
    let mut spool = tane::images::Spool::new(&place).expect("a file");
    let file = std::sync::Arc::new(spool.file().try_clone().expect("a handle"));
    let mut tree = Tree::new();
    for (name, data) in files {
        let (above, name) = parent_and_name(name.as_bytes()).expect("a path");
        let mut node = Node::new(plain_stat(libc::S_IFREG | 0o644));
        let len = data.len() as u64;
        node.stat.size = len;
        node.content = Content::Parts(file.clone(), vec![(0, spool.len(), len)]);
        let dir = tree.directory(&above, 0);
        tree.put(dir, name, node);
        spool.append(data, u64::MAX).expect("written");
    }
    spool.end().expect("written");
    tree
}

#[test]
fn damaged_lists_of_container_images_end() {
    let digest = |data: &[u8]| -> String {
        let sum = Sha256::digest(data);
        sum.iter().map(|b| format!("{b:02x}")).collect()
    };
    let layer = vec![0; 1024];
    let of_layer = digest(&layer);
    let config = format!(r#"{{"rootfs":{{"diff_ids":["sha256:{of_layer}"]}}}}"#);
    let manifest = format!(r#"{{"layers":[{{"digest":"sha256:{of_layer}","size":1024}}]}}"#);
    let (of_config, of_manifest) = (digest(config.as_bytes()), digest(manifest.as_bytes()));
    let blob = |digest: &str| format!("blobs/sha256/{digest}");
    let layout = [
        ("oci-layout".to_owned(), b"{}".to_vec()),
        (blob(&of_layer), layer.clone()),
        (blob(&of_manifest), manifest.into_bytes()),
    ];
    let saved = [
        ("a/layer.tar".to_owned(), layer),
        (format!("{of_config}.json"), config.into_bytes()),
    ];
    let index = format!(
        r#"{{"manifests":[{{"digest":"sha256:{of_manifest}","platform":{{"os":"linux",
        "architecture":"amd64"}},"annotations":{{"org.opencontainers.image.ref.name":"a"}}}}]}}"#
    );
    let list =
        format!(r#"[{{"Config":"{of_config}.json","RepoTags":["a:1"],"Layers":["a/layer.tar"]}}]"#);
    for (name, sound, others) in [
        ("index.json", index, &layout[..]),
        ("manifest.json", list, &saved[..]),
    ] {
        each_seed(&sound, |text| {
            let mut files = others.to_vec();
            files.push((name.into(), text.to_vec()));
            let tree = stored(&files);
            let store = Store::archive(&tree);
            store.is_some_and(|store| oci::layers(&store, None, &Direct::new()).is_ok())
        });
    }
}

#[test]
fn damaged_specifications_end() {
    let spec = "#mtree\n/set type=file uid=0 gid=0 mode=0644\n. type=dir mode=0755\n\
                etc type=dir mode=0750 gid=4 nlink=2\na\\040b mode=04711 uid=7 time=1.5\n..\n\
                ./dev/null type=char \\\n  device=native,1,3 mode=0666 time=5.7\n/unset gid\n";
    each_seed(spec, |text| mtree::apply(&mut tree(), text).is_ok());
}

#[test]
fn damaged_dumps_of_attributes_end() {
    let dump = "# file: file\nuser.t=\"x\\\"y\\012\"\nuser.h=0x0aff\nuser.b=0sAQIDBA==\n\n\
                # file: etc/a\\040b\nsecurity.capability=0x0100000200000000\n\n";
    each_seed(dump, |text| xattrs::apply(&mut tree(), text).is_ok());
}

#[test]
fn damaged_labels_end() {
    let labels = "/.*\tu:r:t:s0\n/etc(/.*)?  u:r:etc:s0\n/etc/[a-z]+ -- u:r:x:s0\n\
                  /etc/.*\\.conf u:r:c:s0\n/proc/.* <<none>>\n";
    each_seed(labels, |text| {
        let mut labels = Labels::default();
        let text = String::from_utf8_lossy(text);
        let read = labels.read(&text).is_ok();
        labels.apply(&mut tree());
        read
    });
}
