//! qemu-img, which shares no code with us, as maker and judge of containers.
#![allow(dead_code)]

use crate::common::Temporary;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A directory that goes with its handle.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Self {
        let file = Temporary::new(&[]);
        let path = file.0.with_extension("d");
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.at(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// Run a program in here that has to succeed.
    pub fn run(&self, line: &str) -> Output {
        let output = self.try_run(line);
        assert!(output.status.success(), "{line}: {output:?}");
        output
    }

    /// The same, if it makes a LUKS header.
    pub fn run_luks(&self, line: &str) -> Output {
        let output = tane_test_support::qemu_luks(&mut self.command(line));
        assert!(output.status.success(), "{line}: {output:?}");
        output
    }

    /// A no-break space is a space within a word.
    pub fn try_run(&self, line: &str) -> Output {
        let output = self.command(line).output();
        output.unwrap_or_else(|e| panic!("{line}: {e}"))
    }

    fn command(&self, line: &str) -> Command {
        let mut words = line.split(' ').map(|word| word.replace('\u{a0}', " "));
        let mut command = Command::new(words.next().unwrap());
        command.args(words).current_dir(&self.0);
        command
    }

    /// The disk's bytes, as QEMU reads the image.
    pub fn qemu_reads(&self, image: &str) -> Vec<u8> {
        self.qemu_reads_as("", image)
    }

    /// `kind`: as the lists below name it. QEMU itself takes a fixed VHD for raw.
    pub fn qemu_reads_as(&self, kind: &str, image: &str) -> Vec<u8> {
        let format = if kind == "vhd-fixed" { "-f vpc " } else { "" };
        self.run(&format!(
            "qemu-img convert {format}-O raw {image} qemu-reads.raw"
        ));
        let bytes = std::fs::read(self.at("qemu-reads.raw")).unwrap();
        std::fs::remove_file(self.at("qemu-reads.raw")).unwrap();
        bytes
    }

    /// QEMU finds nothing wrong with the image; room lost is allowed or not.
    pub fn qemu_checks(&self, image: &str, leaks: bool) {
        let output = self.try_run(&format!("qemu-img check {image}"));
        // 63: this format has no check. 3: leaks.
        let code = output.status.code();
        let fine = matches!(code, Some(0 | 63)) || (leaks && code == Some(3));
        assert!(fine, "{image}: {output:?}");
    }
}

/// `image`, a qcow with compressed clusters: qemu-img convert makes none any more.
/// Returns the disk.
pub fn packed_qcow(folder: &Folder, size: usize) -> Vec<u8> {
    folder.run(&format!("qemu-img create -q -f qcow image {size}"));
    let mut line = String::from("qemu-io");
    for at in (0..size).step_by(size / 40) {
        let (at, byte) = (at / 4096 * 4096, at % 251 + 1);
        line += &format!(" -c write\u{a0}-c\u{a0}-P\u{a0}{byte}\u{a0}{at}\u{a0}4k");
    }
    folder.run(&format!("{line} image"));
    folder.qemu_reads("image")
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// What a container can be made as: its name, and the words for qemu-img.
pub const WRITABLE: &[(&str, &str)] = &[
    ("qcow2", "-O qcow2"),
    ("qcow2-v2", "-O qcow2 -o compat=0.10"),
    (
        "qcow2-small",
        "-O qcow2 -o cluster_size=512,refcount_bits=1",
    ),
    (
        "qcow2-large",
        "-O qcow2 -o cluster_size=2M,refcount_bits=64",
    ),
    ("qcow2-packed", "-O qcow2 -c"),
    ("vmdk", "-O vmdk"),
    ("vmdk-flat", "-O vmdk -o subformat=monolithicFlat"),
    ("vmdk-2gb", "-O vmdk -o subformat=twoGbMaxExtentSparse"),
    ("vmdk-2gb-flat", "-O vmdk -o subformat=twoGbMaxExtentFlat"),
    ("vhd", "-O vpc -o force_size=on"),
    ("vhd-fixed", "-O vpc -o subformat=fixed,force_size=on"),
    ("vhdx", "-O vhdx"),
    ("vhdx-fixed", "-O vhdx -o subformat=fixed"),
    ("vhdx-large", "-O vhdx -o block_size=32M"),
];

pub const READABLE: &[(&str, &str)] = &[
    ("vmdk-stream", "-O vmdk -o subformat=streamOptimized"),
    ("qcow2-zstd", "-c -O qcow2 -o compression_type=zstd"),
    (
        "qcow2-zstd-large",
        "-c -O qcow2 -o compression_type=zstd,cluster_size=2M",
    ),
    ("qcow2-extended", "-O qcow2 -o extended_l2=on"),
    (
        "qcow2-extended-small",
        "-O qcow2 -o extended_l2=on,cluster_size=16k",
    ),
    (
        "qcow2-extended-packed",
        "-c -O qcow2 -o extended_l2=on,cluster_size=128k",
    ),
    (
        "qcow2-extended-data",
        "-O qcow2 -o extended_l2=on,data_file=data,data_file_raw=on",
    ),
    ("vdi", "-O vdi"),
    ("vdi-static", "-O vdi -o static=on"),
    ("qed", "-O qed"),
    ("qed-small", "-O qed -o cluster_size=4k,table_size=2"),
    ("qed-large", "-O qed -o cluster_size=1M,table_size=16"),
    ("qcow", "-O qcow"),
];

/// Numbers that look random and are the same in every run.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % below
    }
}

/// A disk with data here and there, and holes between.
pub fn disk_with_holes(size: usize) -> Vec<u8> {
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let mut bytes = vec![0; size];
    for _ in 0..40 {
        let len = 1 + numbers.next(100_000) as usize;
        let at = numbers.next((size - len) as u64) as usize;
        let seed = numbers.next(256) as u8;
        bytes[at..at + len].copy_from_slice(&crate::common::pattern(len, seed));
    }
    bytes
}

pub fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}
