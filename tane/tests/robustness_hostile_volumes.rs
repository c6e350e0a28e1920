//! Damaged headers of what lies between a disk and its file systems: LUKS, BitLocker,
//! LVM, RAID, DDF, partition tables. Whatever they hold, reading them ends, with an error or
//! without, and neither this process nor the kernel comes to harm.
//!
//! TANE_HOSTILE_COUNT says how many images the kernel meets of each kind.
#![allow(clippy::single_range_in_vec_init)] // some headers have one part

mod common;
mod ddf;
mod inside;
mod medium;

use common::TempDir;
use medium::{Medium, Random};
use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Stdio;
use tane::{DiskOptions, Kernel, VolumeOptions};
use tane_test_support::tool;

/// Damaged headers of each kind that are read without a kernel.
const HEADERS: u64 = 500;
const IMAGES: u64 = 40;

fn blank(dir: &TempDir, mib: u64) -> std::path::PathBuf {
    let path = dir.path().join("disk");
    let file = File::create(&path).expect("a file");
    file.set_len(mib << 20).expect("its size");
    path
}

fn luks(kind: &str) -> Option<Vec<u8>> {
    let dir = TempDir::new();
    let disk = blank(&dir, 20);
    std::fs::write(dir.path().join("key"), "secret").expect("a file");
    let mut command = tool("cryptsetup-bin", "cryptsetup")?;
    command.args(["luksFormat", "-q", "--pbkdf=pbkdf2", "--type", kind]);
    command.args(["--pbkdf-force-iterations=1000", "--key-file"]);
    inside::run(command.arg(dir.path().join("key")).arg(&disk));
    Some(std::fs::read(disk).expect("the disk"))
}

const METADATA: usize = 64 << 10;

/// The boot sector and the metadata of a volume that Windows made, closer together.
fn bitlocker() -> Option<Vec<u8>> {
    let image = "../build/foreign/cryptsetup/bitlk-aes-xts-128-startup-key.img";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(image);
    let Ok(file) = File::open(path) else {
        tane_test_support::skip("no images of BitLocker: scripts/foreign-images fetches them");
        return None;
    };
    let mut disk = vec![0u8; 128 << 10];
    let (head, block) = disk.split_at_mut(METADATA);
    file.read_exact_at(&mut head[..512], 0)
        .expect("a boot sector");
    let at = u64::from_le_bytes(head[176..184].try_into().expect("eight"));
    file.read_exact_at(block, at).expect("metadata");
    for copy in 0..3 {
        let place = (METADATA as u64).to_le_bytes();
        head[176 + 8 * copy..][..8].copy_from_slice(&place);
        block[32 + 8 * copy..][..8].copy_from_slice(&place);
    }
    block[16..24].copy_from_slice(&(128u64 << 10).to_le_bytes());
    // Where the first of the content is: the last of the data says it.
    let moved = block
        .windows(4)
        .position(|b| b == b"\x0f\0\x0f\0")
        .expect("it");
    block[moved + 6..][..8].copy_from_slice(&(32u64 << 10).to_le_bytes());
    sum_bitlocker(&mut disk);
    Some(disk)
}

/// Makes its checksum right.
fn sum_bitlocker(disk: &mut [u8]) {
    let block = &mut disk[METADATA..];
    let len = usize::from(u16::from_le_bytes([block[8], block[9]])) * 16;
    if len + 8 <= block.len() {
        let sum = crc32fast::hash(&block[..len]);
        block[len + 4..len + 8].copy_from_slice(&sum.to_le_bytes());
    }
}

fn table(label: &str) -> Option<Vec<u8>> {
    let dir = TempDir::new();
    let disk = blank(&dir, 20);
    let mut command = tool("fdisk", "sfdisk")?;
    let child = command.arg("-q").arg(&disk).stdin(Stdio::piped()).spawn();
    let mut child = child.expect("sfdisk");
    let mut input = child.stdin.take().expect("its input");
    let extended = if label == "dos" {
        "type=5,size=8M\n"
    } else {
        ""
    };
    let lines = format!("label: {label}\nsize=4M\n{extended}size=2M\nsize=2M\n");
    input.write_all(lines.as_bytes()).expect("writes");
    drop(input);
    assert!(child.wait().expect("sfdisk").success());
    Some(std::fs::read(disk).expect("the disk"))
}

const GROUP: &str = "vg {\nid = \"vgvgvg\"\nseqno = 3\nstatus = [\"RESIZEABLE\", \"READ\", \"WRITE\"]\n\
extent_size = 2048\nphysical_volumes {\npv0 {\nid = \"aaaaaabbbbccccddddeeeeffffgggggg\"\n\
device = \"/dev/vda\"\npe_start = 2048\npe_count = 18\n}\n}\nlogical_volumes {\nroot {\n\
id = \"lvlvlv\"\nstatus = [\"READ\", \"WRITE\", \"VISIBLE\"]\nsegment_count = 2\nsegment1 {\n\
start_extent = 0\nextent_count = 2\ntype = \"striped\"\nstripe_count = 1\nstripes = [\n\
\"pv0\", 0\n]\n}\nsegment2 {\nstart_extent = 2\nextent_count = 3\ntype = \"striped\"\n\
stripe_count = 1\nstripes = [\n\"pv0\", 4\n]\n}\n}\n}\n}\n# by a test\ncontents = \"Text\"\nversion = 1\n";

/// A physical volume with a group, as lib/format_text/layout.h of LVM2 has it.
fn lvm() -> Vec<u8> {
    let mut disk = vec![0u8; 20 << 20];
    let mut put = |at: usize, bytes: &[u8]| disk[at..at + bytes.len()].copy_from_slice(bytes);
    put(512, b"LABELONE");
    put(520, &1u64.to_le_bytes());
    put(532, &32u32.to_le_bytes());
    put(536, b"LVM2 001");
    let header = 512 + 32;
    put(header, b"aaaaaabbbbccccddddeeeeffffgggggg");
    put(header + 32, &(20u64 << 20).to_le_bytes());
    put(header + 40, &(1u64 << 20).to_le_bytes());
    put(header + 72, &8192u64.to_le_bytes());
    put(header + 80, &(64u64 << 10).to_le_bytes());
    let area = 8192;
    put(area + 4, b" LVM2 x[5A%r0N*>");
    put(area + 20, &1u32.to_le_bytes());
    put(area + 24, &(area as u64).to_le_bytes());
    put(area + 32, &(64u64 << 10).to_le_bytes());
    put(area + 40, &512u64.to_le_bytes());
    put(area + 48, &(GROUP.len() as u64).to_le_bytes());
    put(area + 512, GROUP.as_bytes());
    disk
}

/// A set of one, as linux/raid/md_p.h has it.
fn raid() -> Vec<u8> {
    let mut disk = vec![0u8; 20 << 20];
    let sectors = (19u64 << 20) / 512;
    let mut put = |at: usize, bytes: &[u8]| disk[4096 + at..][..bytes.len()].copy_from_slice(bytes);
    put(0, &0xa92b_4efcu32.to_le_bytes());
    put(4, &1u32.to_le_bytes());
    put(16, &[7; 16]);
    put(32, b"host:data");
    put(72, &1u32.to_le_bytes());
    put(80, &sectors.to_le_bytes());
    put(92, &1u32.to_le_bytes());
    put(128, &2048u64.to_le_bytes());
    put(136, &sectors.to_le_bytes());
    put(144, &8u64.to_le_bytes());
    put(168, &[1; 16]);
    put(200, &5u64.to_le_bytes());
    put(208, &u64::MAX.to_le_bytes());
    put(220, &1u32.to_le_bytes());
    put(256, &[0, 0]);
    sum_raid(&mut disk);
    disk
}

/// Makes its checksum right.
fn sum_raid(disk: &mut [u8]) {
    let block = &mut disk[4096..8192];
    block[216..220].fill(0);
    let devices = u32::from_le_bytes([block[220], block[221], block[222], block[223]]) as usize;
    let len = (256 + 2 * devices.min(1900)).next_multiple_of(4);
    let words = block[..len].chunks(4);
    let word = |w: &[u8]| u64::from(u32::from_le_bytes([w[0], w[1], w[2], w[3]]));
    let sum: u64 = words.map(word).sum();
    let sum = (sum & 0xffff_ffff).wrapping_add(sum >> 32) as u32;
    block[216..220].copy_from_slice(&sum.to_le_bytes());
}

/// Bits, bytes, boundary values, digits and pieces in each other's places.
fn damage(bytes: &mut [u8], places: &[Range<usize>], random: &mut Random) {
    for _ in 0..1 + random.below(6) {
        let place = &places[random.below(places.len() as u64) as usize];
        let at = place.start + random.below(place.len() as u64) as usize;
        let end = (at + 1 + random.below(8) as usize).min(place.end);
        match random.below(6) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.next() as u8,
            2 => bytes[at..end].fill(0xff),
            3 => bytes[at..end].fill(0),
            4 => bytes[at] = b"0123456789[]{}\"=,\n "[random.below(19) as usize],
            _ => {
                let from = place.start + random.below(place.len() as u64) as usize;
                let len = (end - at).min(place.end - from);
                bytes.copy_within(from..from + len, at);
            }
        }
    }
}

#[test]
fn damaged_headers_are_read_to_their_end() {
    let text = 8192 + 512;
    let lvm_places = vec![512..700, 8192..8300, text..text + GROUP.len()];
    let kinds = [
        ("luks1", 0, luks("luks1"), vec![0..592]),
        ("luks2", 0, luks("luks2"), vec![0..64, 4096..8192]),
        ("lvm", 1, Some(lvm()), lvm_places),
        ("gpt", 2, table("gpt"), vec![440..1536]),
        ("dos", 2, table("dos"), vec![440..512]),
    ];
    for (name, choice, sound, places) in kinds {
        // What tells of it lies in the first 128 KiB.
        let Some(sound) = sound.map(|disk| [&[choice], &disk[..128 << 10]].concat()) else {
            continue;
        };
        let places: Vec<_> = places.iter().map(|p| p.start + 1..p.end + 1).collect();
        assert!(tane::fuzz_volumes(&sound), "{name}: what is sound is read");
        let mut bytes = sound.clone();
        let mut understood = 0;
        for seed in 0..HEADERS {
            bytes.copy_from_slice(&sound);
            damage(&mut bytes, &places, &mut Random(seed));
            understood += u64::from(tane::fuzz_volumes(&bytes));
        }
        println!("{name}: {understood} of {HEADERS} made sense");
    }
}

#[test]
fn damaged_metadata_of_bitlocker_is_read_to_its_end() {
    let Some(sound) = bitlocker() else { return };
    let is_read = |disk: &[u8]| tane::fuzz_volumes(&[&[3], disk].concat());
    assert!(is_read(&sound), "what is sound is read");
    let places = [3..13, 160..200, METADATA..METADATA + 1300];
    let mut understood = 0;
    for seed in 0..HEADERS {
        let mut bytes = sound.clone();
        let mut random = Random(seed);
        damage(&mut bytes, &places, &mut random);
        if random.below(8) > 0 {
            sum_bitlocker(&mut bytes);
        }
        understood += u64::from(is_read(&bytes));
    }
    println!("bitlocker: {understood} of {HEADERS} made sense");
}

#[test]
fn damaged_metadata_of_ddf_is_read_to_its_end() {
    let sound = ddf::disk(0);
    let is_read = |disk: &[u8]| tane::fuzz_volumes(&[&[4], disk].concat());
    assert!(is_read(&sound), "what is sound is read");
    let places = ddf::places(&sound);
    let mut understood = 0;
    for seed in 0..HEADERS {
        let mut bytes = sound.clone();
        let mut random = Random(seed);
        damage(&mut bytes, &places, &mut random);
        if random.below(8) > 0 {
            ddf::sum(&mut bytes);
        }
        understood += u64::from(is_read(&bytes));
    }
    println!("ddf: {understood} of {HEADERS} made sense");
}

fn look(kernel: &Kernel, bytes: &[u8]) -> tane::Result<usize> {
    let medium = Medium::of(bytes);
    let disk = kernel.add_disk(medium.disk(), &DiskOptions::new())?;
    let volumes = kernel.volumes(&[&disk], &VolumeOptions::new())?;
    let found = volumes.list().len();
    drop(volumes);
    disk.remove()?;
    Ok(found)
}

/// `fix`: makes checksums right again, in three of four.
#[track_caller]
fn meets(name: &str, sound: Option<Vec<u8>>, places: &[Range<usize>], fix: fn(&mut [u8])) {
    let (Some(sound), Some(kernel)) = (sound, inside::default_kernel()) else {
        return;
    };
    let most = look(&kernel, &sound).expect("what is sound is found");
    let count = std::env::var("TANE_HOSTILE_COUNT").map(|n| n.parse().expect("a number"));
    let (mut found, mut refused) = (0, 0);
    for seed in 0..count.unwrap_or(IMAGES) {
        let mut random = Random(seed);
        let mut bytes = sound.clone();
        damage(&mut bytes, places, &mut random);
        if random.below(4) > 0 {
            fix(&mut bytes);
        }
        match look(&kernel, &bytes) {
            Ok(volumes) => found += volumes,
            Err(_) => refused += 1,
        }
        assert!(
            kernel.is_alive(),
            "{name}, seed {seed}: {}",
            kernel.last_words()
        );
    }
    let log = kernel.dmesg();
    assert_eq!(inside::complaints(&log), [""; 0], "{name}");
    println!("{name}: {most} volumes when sound; {found} found, {refused} refused");
}

#[test]
fn damaged_luks_headers() {
    for kind in ["luks1", "luks2"] {
        meets(kind, luks(kind), &[0..592, 4096..8192], |_| {});
    }
}

#[test]
fn damaged_groups_of_lvm() {
    let places = [512..700, 8192..8300, 8704..8704 + GROUP.len()];
    meets("lvm", Some(lvm()), &places, |_| {});
}

#[test]
fn damaged_superblocks_of_raid() {
    meets("md", Some(raid()), &[4096..4096 + 300], sum_raid);
}

#[test]
fn damaged_groups_of_ddf() {
    // Before it there is room for what the disk has of six volumes.
    let mut sound = ddf::disk(48 << 20);
    meets("ddf", Some(sound.clone()), &ddf::places(&sound), ddf::sum);
    ddf::make_only_member(&mut sound);
    meets(
        "ddf, alone",
        Some(sound.clone()),
        &ddf::places(&sound),
        ddf::sum,
    );
}

#[test]
fn damaged_partition_tables() {
    meets("gpt", table("gpt"), &[440..1536], |_| {});
    meets("dos", table("dos"), &[440..512], |_| {});
}

#[test]
fn a_group_that_is_sound_is_found() {
    let Some(kernel) = inside::default_kernel() else {
        return;
    };
    let medium = Medium::of(&lvm());
    let disk = kernel.add_disk(medium.disk(), &DiskOptions::new());
    let disk = disk.expect("a disk");
    let volumes = kernel.volumes(&[&disk], &VolumeOptions::new());
    let volumes = volumes.expect("volumes");
    let root = volumes.list().iter().find(|v| v.size == 5 << 20);
    assert!(root
        .and_then(|v| v.device.as_deref())
        .is_some_and(|d: &Path| d.starts_with("/dev")));
}
