//! File systems whose host fails or whose power is cut: what each one promises, and
//! what brings it back.
#![allow(dead_code)] // every test program uses a part of it

pub mod kinds;
pub mod workload;

/// A test of this name for each file system, that calls the function with it.
#[allow(unused_macros)] // Not each of the tests that share this module has one.
macro_rules! each_file_system {
    ($call:ident: $($name:ident $kind:ident),+ $(,)?) => {
        $(
            #[test]
            fn $name() {
                $call(&$crate::crash::kinds::$kind);
            }
        )+
    };
    ($call:ident) => {
        $crate::crash::each_file_system! {
            $call: xfs XFS, btrfs BTRFS, f2fs F2FS, nilfs2 NILFS2, jfs JFS, vfat VFAT, exfat EXFAT
        }
    };
}
#[allow(unused_imports)]
pub(crate) use each_file_system;

use kinds::{Kind, Program};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tane::images::{Access, Backend, Fault, Raw};
use tane::{DiskOptions, Kernel, Mount, MountOptions};
use tane_hostile::sparse::Sparse;
use tane_test_support::tool;

/// An image of a kind, in a file that its programs can open.
pub struct Image<'a> {
    pub kind: &'a Kind,
    path: PathBuf,
}

fn run(program: &Program, path: &Path) -> Result<(), String> {
    let Program(package, name, words, fine) = program;
    let mut command = tool(package, name).ok_or("it is missing")?;
    command.env("LC_ALL", "C").args(words.split_whitespace());
    let output = command.arg(path).output().map_err(|e| e.to_string())?;
    match output
        .status
        .code()
        .is_some_and(|code| fine.contains(&code))
    {
        true => Ok(()),
        false => Err(format!("{name}: {}", crate::medium::both(&output))),
    }
}

impl<'a> Image<'a> {
    /// A fresh one. None, and the test is skipped, where a program is missing.
    #[track_caller]
    pub fn new(kind: &'a Kind, path: PathBuf) -> Option<Image<'a>> {
        for Program(package, name, ..) in kind.repair.iter().chain(kind.check) {
            tool(package, name)?;
        }
        let image = Image { kind, path };
        let file = File::create(&image.path).expect("a file");
        file.set_len(kind.mib << 20).expect("its size");
        let Program(package, name, ..) = &kind.mkfs;
        tool(package, name)?;
        run(&kind.mkfs, &image.path).unwrap_or_else(|e| panic!("{}: {e}", kind.name));
        Some(image)
    }

    pub fn save(&self) -> Sparse {
        Sparse::load(&self.path).expect("the image")
    }

    pub fn restore(&self, saved: &Sparse) {
        let file = File::create(&self.path).expect("the image");
        saved.store(&file).expect("the image");
    }

    pub fn disk(&self) -> Arc<dyn Backend> {
        let access = Access {
            write: true,
            direct: false,
        };
        Arc::new(Raw::open(&self.path, access).expect("the image"))
    }

    pub fn mount_on(&self, kernel: &Kernel, disk: Arc<dyn Backend>) -> tane::Result<Mount> {
        let disk = kernel.add_disk(disk, &DiskOptions::new())?;
        let mut options = MountOptions::new();
        options.fstype(self.kind.fstype).options(self.kind.options);
        options.mount(kernel, disk.device())
    }

    /// Mounted over a log of what is done to it, and over failures.
    pub fn mount_faulty(&self, kernel: &Kernel) -> (Arc<Fault>, Mount) {
        let fault = Arc::new(Fault::logging(self.disk()));
        let mount = self.mount_on(kernel, fault.clone());
        (fault, mount.expect("mounts"))
    }

    pub fn mount(&self, kernel: &Kernel) -> Result<Mount, String> {
        let mount = self.mount_on(kernel, self.disk());
        mount.map_err(|e| format!("mount: {e}"))
    }

    /// What has to be done before it can be mounted again.
    pub fn repair(&self) -> Result<(), String> {
        self.kind.repair.iter().try_for_each(|p| run(p, &self.path))
    }

    /// Whether it is sound, as its own programs have it.
    pub fn check(&self) -> Result<(), String> {
        self.kind.check.iter().try_for_each(|p| run(p, &self.path))
    }

    /// What brings it back however badly it was treated: a mount, or what its programs
    /// do with force.
    pub fn bring_back(&self, kernel: &Kernel) -> Result<(), String> {
        self.repair()?;
        if let Ok(mount) = self.mount(kernel) {
            let _ = mount.unmount();
        }
        if self.check().is_err() {
            self.kind
                .force
                .iter()
                .try_for_each(|p| run(p, &self.path))?;
        }
        self.check()
    }
}
