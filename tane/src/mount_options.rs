//! How a file system is mounted.

use crate::error::{Context, Errno, Error, Result};
use crate::kernel::Kernel;
use crate::mount::Mount;
use crate::path::with_cstr;
use crate::probe::{self, FileSystem};
use crate::progress::Step;
use crate::sys::{Fd, SysResult};
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tane_linux::Config;

const MOUNT_ATTR_RDONLY: u64 = 0x1;
const MOUNT_ATTR_NOSUID: u64 = 0x2;
const MOUNT_ATTR_NODEV: u64 = 0x4;
const MOUNT_ATTR_NOEXEC: u64 = 0x8;
const MOUNT_ATTR_NOATIME: u64 = 0x10;

/// Settings of a mount; mount(8).
///
/// ```no_run
/// # let kernel = tane::Kernel::boot()?;
/// let mount = tane::MountOptions::new()
///     .read_only(true)
///     .mount(&kernel, "/dev/vda1")?;
/// # Ok::<(), tane::Error>(())
/// ```
///
/// Device nodes of the image cannot be opened and its programs not executed:
/// nothing in an image reaches the kernel's devices. Reading changes no access
/// times unless [`MountOptions::atime`] says so.
#[derive(Clone, Debug)]
pub struct MountOptions {
    fstype: Option<String>,
    read_only: bool,
    devices: bool,
    atime: bool,
    exec: bool,
    options: Vec<(String, Option<String>)>,
}

impl Default for MountOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl MountOptions {
    /// Writable, type recognised from the content, no options.
    pub fn new() -> Self {
        MountOptions {
            fstype: None,
            read_only: false,
            devices: false,
            atime: false,
            exec: false,
            options: Vec::new(),
        }
    }

    /// The type, such as "ext4" or "tmpfs"; else it is recognised.
    pub fn fstype(&mut self, fstype: impl Into<String>) -> &mut Self {
        self.fstype = Some(fstype.into());
        self
    }

    /// What was recognised on the device just before: it is not read for that again.
    #[doc(hidden)]
    pub fn recognised(&mut self, found: &FileSystem) -> &mut Self {
        let is_mounted = probe::description(&found.fstype).is_none();
        if self.fstype.is_none() && is_mounted {
            self.fstype = Some(found.fstype.clone());
        }
        self
    }

    pub(crate) fn has_fstype(&self) -> bool {
        self.fstype.is_some()
    }

    pub(crate) fn has_option(&self, wanted: &str) -> bool {
        self.options.iter().any(|(name, _)| name == wanted)
    }

    /// Refuse writes. A journal may be replayed onto a writable disk all the
    /// same, as Linux does; make the disk read-only to keep it untouched.
    pub fn read_only(&mut self, yes: bool) -> &mut Self {
        self.read_only = yes;
        self
    }

    /// Let device nodes be opened.
    pub fn devices(&mut self, yes: bool) -> &mut Self {
        self.devices = yes;
        self
    }

    /// Let reading change access times, as Linux does by default (relatime).
    pub fn atime(&mut self, yes: bool) -> &mut Self {
        self.atime = yes;
        self
    }

    /// Let programs be executed, and set-uid bits count.
    pub fn exec(&mut self, yes: bool) -> &mut Self {
        self.exec = yes;
        self
    }

    /// An option of this type of file system, without a value.
    pub fn flag(&mut self, name: impl Into<String>) -> &mut Self {
        self.options.push((name.into(), None));
        self
    }

    /// An option of this type of file system with a value.
    pub fn option(&mut self, name: impl Into<String>, value: impl Into<String>) -> &mut Self {
        self.options.push((name.into(), Some(value.into())));
        self
    }

    /// Options as in fstab(5): separated by commas, each a name or name=value.
    pub fn options(&mut self, list: &str) -> &mut Self {
        for option in list.split(',').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some((name, value)) => self.option(name, value),
                None => match option {
                    "ro" => self.read_only(true),
                    "rw" => self.read_only(false),
                    name => self.flag(name),
                },
            };
        }
        self
    }

    /// All of them as words: the type, options as [`Self::options`] takes them, and
    /// whether devices, programs and access times count; for who mounts elsewhere.
    ///
    /// EINVAL: an option has a comma in it, which the list cannot.
    #[doc(hidden)]
    pub fn words(&self) -> Result<(Option<&str>, String, [bool; 3])> {
        let mut list = vec![String::from(if self.read_only { "ro" } else { "rw" })];
        for (name, value) in &self.options {
            let word = match value {
                Some(value) => format!("{name}={value}"),
                None => name.clone(),
            };
            if word.contains(',') {
                let text = format!("the option {word} has a comma in it");
                return Err(Error::plain(libc::EINVAL, "mount", text));
            }
            list.push(word);
        }
        let bits = [self.devices, self.exec, self.atime];
        Ok((self.fstype.as_deref(), list.join(","), bits))
    }

    /// Mount what `source` names inside the kernel: a device such as
    /// "/dev/vda1" (see [`Disk`](crate::Disk)), or for a file system without a
    /// device any word.
    ///
    /// Errors carry what the file system said. Among them: ENODEV the kernel
    /// does not know the type; EINVAL, EUCLEAN the content is not of the type,
    /// or damaged; EACCES the disk is read-only and the mount should not be;
    /// ENOMEDIUM the type was not recognised.
    pub fn mount(&self, kernel: &Kernel, source: impl AsRef<OsStr>) -> Result<Mount> {
        let _step = Step::begin();
        let source = source.as_ref();
        if let Some(fstype) = &self.fstype {
            return self.mount_as(kernel, source, fstype);
        }
        match probe::probe(kernel, Path::new(source))? {
            Some(found) => match probe::description(&found.fstype) {
                None => self.mount_as(kernel, source, &found.fstype),
                Some(what) => Err(Errno(libc::ENODEV)
                    .on("mount", Path::new(source))
                    .with_text(format!("is {what}"))),
            },
            None => self.try_all(kernel, source),
        }
    }

    /// Nothing we recognise: ask every file system the kernel has, but for those that
    /// take it for theirs by next to nothing.
    fn try_all(&self, kernel: &Kernel, source: &OsStr) -> Result<Mount> {
        let all = kernel.filesystems(true)?.into_iter();
        for fstype in all.filter(|fstype| !["adfs", "v7"].contains(&fstype.as_str())) {
            if let Ok(mount) = self.mount_as(kernel, source, &fstype) {
                return Ok(mount);
            }
        }
        Err(Errno(libc::ENOMEDIUM)
            .on("mount", Path::new(source))
            .with_text("no file system this kernel knows"))
    }

    fn mount_as(&self, kernel: &Kernel, source: &OsStr, fstype: &str) -> Result<Mount> {
        let log = kernel.dmesg().len();
        let mut context = None;
        let made = self.context(kernel, source, fstype, &mut context);
        made.map_err(|errno| {
            let said = context.as_ref().map(messages);
            explain(kernel, errno, source, fstype, said, log)
        })
    }

    fn context(
        &self,
        kernel: &Kernel,
        source: &OsStr,
        fstype: &str,
        context: &mut Option<Fd>,
    ) -> SysResult<Mount> {
        let opened = with_cstr(fstype.as_bytes(), |fstype| kernel.fsopen(fstype))?;
        let fs: &Fd = context.insert(opened);
        let set =
            |name: &CStr, value: &CStr| kernel.sys().fsconfig(fs, &Config::String(name, value));
        with_cstr(source.as_bytes(), |source| set(c"source", source))?;
        if self.read_only {
            kernel.sys().fsconfig(fs, &Config::Flag(c"ro"))?;
        }
        for (name, value) in &self.options {
            with_cstr(name.as_bytes(), |name| match value {
                None => kernel.sys().fsconfig(fs, &Config::Flag(name)),
                Some(value) => with_cstr(value.as_bytes(), |value| set(name, value)),
            })?;
        }
        for (name, value) in self.implied(kernel, source, fstype) {
            match value {
                None => kernel.sys().fsconfig(fs, &Config::Flag(name)),
                Some(value) => set(name, value),
            }?;
        }
        kernel.sys().fsconfig(fs, &Config::Create)?;
        let root = kernel.fsmount(fs, self.attributes())?;
        let place = attach(kernel, &root)?;
        let source = Path::new(source);
        Ok(Mount::new(root, place, fstype.to_owned(), source))
    }

    /// What the content says and Linux wants to be told nevertheless.
    fn implied(
        &self,
        kernel: &Kernel,
        source: &OsStr,
        fstype: &str,
    ) -> Vec<(&'static CStr, Option<&'static CStr>)> {
        let is_given = |wanted: &str| self.has_option(wanted);
        match fstype {
            "ufs" if !is_given("ufstype") => {
                let dialect = probe::ufs_dialect(kernel, Path::new(source));
                dialect.map(|d| (c"ufstype", Some(d))).into_iter().collect()
            }
            // Others show attributes and ACLs unless told not to.
            "reiserfs" if !is_given("nouser_xattr") && !is_given("noacl") => {
                vec![(c"user_xattr", None), (c"acl", None)]
            }
            _ => Vec::new(),
        }
    }

    fn attributes(&self) -> u64 {
        let mut attributes = 0;
        for (wanted, bit) in [
            (self.read_only, MOUNT_ATTR_RDONLY),
            (!self.exec, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC),
            (!self.devices, MOUNT_ATTR_NODEV),
            (!self.atime, MOUNT_ATTR_NOATIME),
        ] {
            if wanted {
                attributes |= bit;
            }
        }
        attributes
    }
}

/// Give a mount a place of its own, so that it can be unmounted with an answer.
fn attach(kernel: &Kernel, root: &Fd) -> SysResult<PathBuf> {
    let place = kernel.new_mount_point();
    let mkdir = |path: &Path| {
        let bytes = path.as_os_str().as_bytes();
        match with_cstr(bytes, |path| {
            kernel.sys().mkdir(libc::AT_FDCWD, path, 0o700)
        }) {
            Err(errno) if errno.0 != libc::EEXIST => Err(errno),
            _ => Ok(()),
        }
    };
    if let Err(Errno(libc::ENOENT)) = mkdir(&place) {
        mkdir(place.parent().unwrap_or(Path::new("/")))?;
        mkdir(&place)?;
    }
    let bytes = place.as_os_str().as_bytes();
    with_cstr(bytes, |path| kernel.sys().move_mount(root, path))?;
    Ok(place)
}

/// What the file system told whoever configures it: one line per read, with a
/// letter for its severity.
fn messages(fs: &Fd) -> Vec<String> {
    let mut lines = Vec::new();
    let mut buffer = [0; 512];
    while let Ok(n @ 1..) = fs.sys().read(fs, &mut buffer) {
        let line = String::from_utf8_lossy(&buffer[..n]);
        let line = line.trim_end();
        let text = line.get(2..).filter(|_| line.get(1..2) == Some(" "));
        lines.push(text.unwrap_or(line).to_owned());
        if lines.len() == 16 {
            break;
        }
    }
    lines
}

/// An errno, with everything that was said about it. `told`: by a file system that the
/// kernel knows.
fn explain(
    kernel: &Kernel,
    errno: Errno,
    source: &OsStr,
    fstype: &str,
    told: Option<Vec<String>>,
    log: usize,
) -> Error {
    let is_known = told.is_some();
    let mut said = told.unwrap_or_default();
    // Older file systems tell the log only.
    let device = Path::new(source).file_name().unwrap_or(source);
    let device = device.to_string_lossy();
    let log = kernel.dmesg().get(log..).unwrap_or_default().to_owned();
    let lines = log.lines().map(strip_time);
    let lines = lines.filter(|line| is_cause(line, &device, fstype));
    said.extend(lines.take(8).map(str::to_owned));
    let disk = kernel.disk_of(Path::new(source));
    if errno.0 == libc::EACCES && disk.is_some_and(|disk| disk.read_only().unwrap_or(false)) {
        said.push(String::from("the disk is read-only"));
    }
    match is_known {
        true => said.insert(0, format!("as {fstype}")),
        false => said.push(format!("this kernel does not know the type {fstype}")),
    }
    errno
        .on("mount", Path::new(source))
        .with_text(said.join("; "))
}

/// Whether a line of the log tells why this device could not be mounted.
fn is_cause(line: &str, device: &str, fstype: &str) -> bool {
    let of_word = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let names_it = line.split(|c| !of_word(c)).any(|word| word == device);
    // Some name no device, as in "SQUASHFS error: …" and "UDF-fs: …".
    let prefix = match fstype {
        "iso9660" => "isofs",
        other => other,
    };
    let start = line.get(..prefix.len()).unwrap_or_default();
    let is_own = start.eq_ignore_ascii_case(prefix) && !line.contains('(');
    // What btrfs says of each mount.
    (names_it || is_own) && !line.starts_with("BTRFS info") && !line.starts_with("BTRFS: device")
}

/// A line of the log without its priority and time.
fn strip_time(line: &str) -> &str {
    let line = match line.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
        Some((_, rest)) => rest,
        None => line,
    };
    match line
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("] "))
    {
        Some((_, rest)) => rest,
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fstab_options_are_split_at_commas_and_the_first_equals_sign() {
        let mut options = MountOptions::new();
        options.options("ro,noload,data=ordered,,x=a=b");
        assert!(options.read_only);
        let expected = [
            ("noload", None),
            ("data", Some("ordered")),
            ("x", Some("a=b")),
        ];
        let expected = expected.map(|(n, v)| (n.to_owned(), v.map(str::to_owned)));
        assert_eq!(options.options, expected);
    }

    #[test]
    fn lines_of_the_log_are_causes_if_they_are_about_the_device_or_the_type() {
        for line in [
            "EXT4-fs (vda1): bad geometry",
            "BTRFS error (device vda1): open_ctree failed: -2",
            "erofs: (device vda1): unsupported features",
            "I/O error, dev vda1, sector 2",
            "UDF-fs: warning: no anchor",
        ] {
            assert!(is_cause(line, "vda1", "udf"), "{line}");
        }
        for line in [
            "EXT4-fs (vda): bad geometry",
            "EXT4-fs (vda10): bad geometry",
            "BTRFS info (device vda1): first mount",
            "UDF-fs: warning (device vdb): no anchor",
        ] {
            assert!(!is_cause(line, "vda1", "udf"), "{line}");
        }
    }

    #[test]
    fn a_log_line_loses_its_time() {
        assert_eq!(
            strip_time("[    0.5] EXT4-fs (vda): bad"),
            "EXT4-fs (vda): bad"
        );
        assert_eq!(strip_time("EXT4-fs (vda): bad"), "EXT4-fs (vda): bad");
    }
}
