//! Files that are lent to a module: it sees what is in the kernel's cache, and changes nothing of
//! it; whatever it does with a view, and whatever becomes of the file, ends at most its call, and
//! leaves nothing behind.

mod common;

use common::can_run;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tane_checked_build::{build, kernel_imports, Options};
use tane_checked_run::{Calls, Checked, Error, Import, Instance, Linux, Trap};
use tane_host::{Builder, Image, Kernel};

const HEAP: u64 = 1 << 20;
const PAGE: u64 = 4096;

fn negative(errno: i32) -> u64 {
    -i64::from(errno) as u64
}

fn boot() -> Kernel {
    let path = match std::env::var_os("TANE_TEST_IMAGE") {
        Some(path) => PathBuf::from(path),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../build/images/tane-tiny.elf"),
    };
    let image = Image::open(&path).unwrap_or_else(|e| panic!("{e}"));
    let builder = Builder {
        ram: 64 << 20,
        ..Builder::default()
    };
    let kernel = builder.boot(&image).unwrap_or_else(|e| panic!("{e}"));
    let at = c"/data".as_ptr() as u64;
    syscall(&kernel, libc::SYS_mkdir, &[at, 0o700]);
    kernel
}

/// One that must not fail.
fn syscall(kernel: &Kernel, nr: i64, args: &[u64]) -> u64 {
    let mut six = [0; 6];
    six[..args.len()].copy_from_slice(args);
    // SAFETY: pointers are to strings and buffers of the tests.
    let ret = unsafe { kernel.syscall(nr, six) };
    u64::try_from(ret).unwrap_or_else(|_| panic!("{nr} {args:x?}: {ret}"))
}

/// A file of the kernel's, to be written by the test.
struct File<'k>(&'k Kernel, u64);

impl File<'_> {
    fn write(&self, bytes: &[u8], at: u64) {
        let args = [self.1, bytes.as_ptr() as u64, bytes.len() as u64, at];
        let wrote = syscall(self.0, libc::SYS_pwrite64, &args);
        assert_eq!(wrote, bytes.len() as u64);
    }

    fn truncate(&self, bytes: u64) {
        syscall(self.0, libc::SYS_ftruncate, &[self.1, bytes]);
    }
}

fn contents(bytes: u64) -> Vec<u8> {
    (0..bytes).map(|i| (i * 7 + i / 251) as u8).collect()
}

/// `/data/made`, of so many bytes.
fn file(kernel: &Kernel, bytes: u64) -> File<'_> {
    let flags = (libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC) as u64;
    let args = [c"/data/made".as_ptr() as u64, flags, 0o600];
    let file = File(kernel, syscall(kernel, libc::SYS_open, &args));
    file.write(&contents(bytes), 0);
    file
}

fn module() -> &'static Checked {
    static MODULE: OnceLock<Checked> = OnceLock::new();
    MODULE.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lend.c");
        let options = Options {
            imports: kernel_imports().map(str::to_owned).collect(),
            ..Options::default()
        };
        let file = build(&[&source], &options).unwrap_or_else(|e| panic!("{e}"));
        Checked::new(file).unwrap_or_else(|e| panic!("{e}"))
    })
}

type Told = Arc<Mutex<Vec<u8>>>;

struct Lent {
    instance: Instance,
    told: Told,
}

impl Lent {
    fn new(kernel: &Kernel) -> Lent {
        let told = Told::default();
        let to = told.clone();
        let output: Import = Box::new(move |[_, from, bytes, ..], memory| {
            let Some(copy) = memory.read(from, bytes as usize) else {
                return negative(libc::EFAULT);
            };
            *to.lock().expect("no panic") = copy;
            bytes
        });
        let imports = vec![("tane_output", output)];
        let mut instance =
            Instance::of(module(), HEAP, Calls::all(), imports).unwrap_or_else(|e| panic!("{e:?}"));
        let linux = Linux {
            kernel,
            directory: Some(c"/data"),
            descriptors: 1,
        };
        instance.connect(linux).unwrap_or_else(|e| panic!("{e:?}"));
        Lent { instance, told }
    }

    fn try_run(&mut self, name: &str, arguments: &[u64]) -> Result<u64, Trap> {
        self.instance.call(name, arguments).expect("it is exported")
    }

    fn run(&mut self, name: &str, arguments: &[u64]) -> u64 {
        let result = self.try_run(name, arguments);
        result.unwrap_or_else(|trap| panic!("{name} {arguments:x?}: {trap:?}"))
    }

    fn open(&mut self, path: &str, flags: i32) -> u64 {
        let at = self.run("where", &[]);
        let bytes = [path.as_bytes(), b"\0"].concat();
        assert!(self.instance.memory().write(at, &bytes));
        self.run("opens", &[flags as u64])
    }

    /// The file that the test has made, so much of it from there on.
    fn lend(&mut self, bytes: u64, at: u64) -> u64 {
        let fd = self.open("made", libc::O_RDWR);
        self.run("lends", &[fd, bytes, at])
    }
}

fn sum(bytes: &[u8]) -> u64 {
    let each = bytes.iter();
    each.fold(0, |sum: u64, byte| {
        sum.wrapping_mul(31).wrapping_add(u64::from(*byte))
    })
}

/// How many mappings the kernel has for this process.
fn mappings(kernel: &Kernel) -> usize {
    static MOUNTED: Mutex<()> = Mutex::new(());
    let _one = MOUNTED.lock();
    let proc = c"/proc".as_ptr() as u64;
    // SAFETY: strings of ours. It may be there already.
    unsafe {
        kernel.syscall(libc::SYS_mkdir, [proc, 0o700, 0, 0, 0, 0]);
        let kind = c"proc".as_ptr() as u64;
        kernel.syscall(libc::SYS_mount, [proc, proc, kind, 0, 0, 0]);
    }
    let path = c"/proc/1/maps".as_ptr() as u64;
    let fd = syscall(kernel, libc::SYS_open, &[path, 0]);
    let (mut text, mut buffer) = (Vec::<u8>::new(), vec![0; 65536]);
    loop {
        let args = [fd, buffer.as_mut_ptr() as u64, buffer.len() as u64];
        match syscall(kernel, libc::SYS_read, &args) as usize {
            0 => break,
            n => text.extend(&buffer[..n]),
        }
    }
    syscall(kernel, libc::SYS_close, &[fd]);
    text.iter().filter(|byte| **byte == b'\n').count()
}

#[test]
fn a_view_is_what_is_in_the_file() {
    if !can_run() {
        return;
    }
    let kernel = boot();
    let (length, mut of) = (1_000_003, Lent::new(&kernel));
    let file = file(&kernel, length);
    let all = contents(length);
    for (bytes, at) in [
        (length, 0),
        (65536, 0),
        (65536, 131_072),
        (100, 5),
        (PAGE, PAGE - 1),
        (u64::MAX >> 1, 12_345),
        (1 << 40, length - 1),
    ] {
        let lent = bytes.min(length - at);
        assert_eq!(of.lend(bytes, at), lent, "{bytes} at {at}");
        let expected = &all[at as usize..(at + lent) as usize];
        assert_eq!(of.run("sum", &[lent]), sum(expected), "{bytes} at {at}");
        // A function of the host's, and a call of the kernel's, read it as well.
        let some = lent.min(1000);
        assert_eq!(of.run("tells", &[some]), some);
        assert_eq!(
            *of.told.lock().expect("no panic"),
            expected[..some as usize]
        );
        let to = of.open("made", libc::O_RDWR);
        assert_eq!(of.run("write_from", &[to, 0, 1]), 1);
        file.write(&all[..1], 0);
    }
    // Nothing at its end, and behind.
    assert_eq!(of.lend(10, length), 0);
    assert_eq!(of.lend(10, length + 100), 0);
    // What is written later is seen.
    assert_eq!(of.lend(PAGE, 0), PAGE);
    file.write(b"!", 77);
    assert_eq!(of.run("byte", &[77]), u64::from(b'!'));
}

#[test]
fn a_view_is_not_written_by_the_module_nor_for_it() {
    if !can_run() {
        return;
    }
    let kernel = boot();
    let (_file, mut of) = (file(&kernel, 3 * PAGE), Lent::new(&kernel));
    for at in [0, PAGE - 1, 2 * PAGE] {
        assert_eq!(of.lend(3 * PAGE, 0), 3 * PAGE);
        let fd = of.open("made", libc::O_RDONLY);
        assert_eq!(of.run("read_into", &[fd]), negative(libc::EFAULT));
        let place = of.run("view_at", &[]);
        assert!(!of.instance.memory().write(place, b"x"));
        assert_eq!(of.try_run("writes_to", &[at]), Err(Trap::Memory));
        // The trap has given it back.
        assert_eq!(of.try_run("byte", &[0]), Err(Trap::Memory));
    }
    assert_eq!(of.lend(3 * PAGE, 0), 3 * PAGE);
    assert_eq!(of.run("sum", &[3 * PAGE]), sum(&contents(3 * PAGE)));
}

#[test]
fn what_was_given_back_is_there_no_more() {
    if !can_run() {
        return;
    }
    let kernel = boot();
    let (_file, mut of) = (file(&kernel, 3 * PAGE), Lent::new(&kernel));
    assert_eq!(of.lend(PAGE + 1, 10), PAGE + 1);
    let at = of.run("view_at", &[]);
    // Neither before nor behind it: whole pages of the file, and nothing else.
    assert_eq!(of.instance.memory().read(at - 11, 1), None);
    assert_eq!(of.instance.memory().read(at, 2 * PAGE as usize), None);
    for wrong in [at + 1, at - 10, 0, HEAP, u64::MAX] {
        assert_eq!(
            of.run("releases", &[wrong]),
            negative(libc::EINVAL),
            "{wrong:x}"
        );
    }
    assert_eq!(
        of.run("byte", &[PAGE]),
        u64::from(contents(2 * PAGE)[PAGE as usize + 10])
    );
    assert_eq!(of.run("releases", &[at]), 0);
    assert_eq!(of.run("releases", &[at]), negative(libc::EINVAL));
    assert_eq!(of.instance.memory().read(at, 1), None);
    assert_eq!(of.run("tells", &[1]), negative(libc::EFAULT));
    assert_eq!(of.try_run("byte", &[0]), Err(Trap::Memory));
}

#[test]
fn a_file_that_becomes_shorter_while_it_is_lent_ends_the_call_that_looks() {
    if !can_run() {
        return;
    }
    let kernel = boot();
    let (file, mut of) = (file(&kernel, 64 * PAGE), Lent::new(&kernel));
    let all = contents(64 * PAGE);
    assert_eq!(of.lend(64 * PAGE, 0), 64 * PAGE);
    file.truncate(10 * PAGE);
    // To functions of the host's it is zeroes, to the kernel an error or what is there.
    assert_eq!(of.run("tells", &[12 * PAGE]), 12 * PAGE);
    let told = of.told.lock().expect("no panic").clone();
    assert_eq!(told[..10 * PAGE as usize], all[..10 * PAGE as usize]);
    assert!(told[10 * PAGE as usize..].iter().all(|byte| *byte == 0));
    let path = c"/data/other".as_ptr() as u64;
    let other = syscall(&kernel, libc::SYS_open, &[path, 0o102, 0o600]);
    syscall(&kernel, libc::SYS_close, &[other]);
    let fd = of.open("other", libc::O_RDWR);
    assert_eq!(
        of.run("write_from", &[fd, 20 * PAGE, 1]),
        negative(libc::EFAULT)
    );
    assert_eq!(
        of.run("byte", &[10 * PAGE - 1]),
        u64::from(all[10 * PAGE as usize - 1])
    );
    assert_eq!(of.try_run("byte", &[30 * PAGE]), Err(Trap::Memory));
    // Made longer again, it is there again: faults are the kernel's to serve.
    file.truncate(64 * PAGE);
    assert_eq!(of.lend(64 * PAGE, 0), 64 * PAGE);
    file.truncate(0);
    file.truncate(64 * PAGE);
    assert_eq!(of.run("sum", &[64 * PAGE]), 0);
    file.truncate(0);
    file.write(&all, 0);
    assert_eq!(of.run("write_from", &[fd, 5 * PAGE, 3 * PAGE]), 3 * PAGE);
    assert_eq!(of.run("sum", &[64 * PAGE]), sum(&all));
}

#[test]
fn what_is_no_file_to_be_read_is_not_lent() {
    if !can_run() {
        return;
    }
    let kernel = boot();
    let at = c"/data/fifo".as_ptr() as u64;
    syscall(&kernel, libc::SYS_mknod, &[at, 0o010_600, 0]);
    let (_file, mut of) = (file(&kernel, PAGE), Lent::new(&kernel));
    for (path, flags, errno) in [
        ("made", libc::O_WRONLY, libc::EACCES),
        (".", libc::O_RDONLY | libc::O_DIRECTORY, libc::ENODEV),
        ("fifo", libc::O_RDWR, libc::ESPIPE),
    ] {
        let fd = of.open(path, flags);
        assert!(fd < 1000, "{path}: {fd:x}");
        let lent = of.run("lends", &[fd, 1, 0]) as i64;
        // A directory has an end of its own kind.
        assert!(
            lent == i64::from(-errno) || (path == "." && lent <= 0),
            "{path}: {lent}"
        );
    }
    for fd in [-1_i64 as u64, 999, 1 << 31, u64::MAX >> 1] {
        let lent = of.run("lends", &[fd, 1, 0]);
        assert_eq!(lent, negative(libc::EBADF), "{fd:x}");
    }
    let fd = of.open("made", libc::O_RDONLY);
    assert_eq!(of.run("lends", &[fd, 1, 1 << 63]), negative(libc::EINVAL));
    // Where the address of the view is to come.
    for to in [0, 0xffff, 0x1_0000, (1 << 32) - 8] {
        assert_eq!(
            of.run("lends_to", &[fd, to]),
            negative(libc::EFAULT),
            "{to:x}"
        );
    }
}

#[test]
fn views_that_are_kept_are_bounded_and_go_with_the_call_that_fails_or_with_the_instance() {
    if !can_run() {
        return;
    }
    let kernel = boot();
    let _file = file(&kernel, 1000 * PAGE);
    let before = mappings(&kernel);
    let mut of = Lent::new(&kernel);
    for _ in 0..3 {
        let fd = of.open("made", libc::O_RDONLY);
        assert_eq!(of.run("hoards", &[fd]), 64);
        assert!(mappings(&kernel) > before);
        assert_eq!(of.try_run("writes_to", &[0]), Err(Trap::Memory));
        assert_eq!(mappings(&kernel), before);
    }
    of.instance
        .limit(Duration::from_millis(50))
        .expect("a thread");
    assert_eq!(of.lend(1, 0), 1);
    assert_eq!(of.try_run("goes_on_for_ever", &[]), Err(Trap::Time));
    assert_eq!(mappings(&kernel), before);
    assert_eq!(of.lend(1000 * PAGE, 0), 1000 * PAGE);
    // Whoever has its memory still has no view of it.
    let memory = of.instance.memory().clone();
    let at = of.run("view_at", &[]);
    assert!(memory.read(at, 100).is_some());
    drop(of);
    assert_eq!(memory.read(at, 100), None);
    assert_eq!(mappings(&kernel), before);
    assert_eq!(Lent::new(&kernel).lend(PAGE, 0), PAGE);
    assert_eq!(mappings(&kernel), before);
    assert!(kernel.is_alive());
}

#[test]
fn a_kernel_that_ends_while_it_has_lent_takes_nobody_with_it() {
    if !can_run() {
        return;
    }
    let kernel = boot();
    let _file = file(&kernel, 10 * PAGE);
    let mut of = Lent::new(&kernel);
    assert_eq!(of.lend(10 * PAGE, 0), 10 * PAGE);
    kernel.halt();
    // The memory is there as long as somebody has the kernel.
    assert_eq!(of.run("sum", &[10 * PAGE]), sum(&contents(10 * PAGE)));
    let at = of.run("view_at", &[]);
    assert_eq!(of.run("lends", &[3, 1, 0]), negative(libc::ESHUTDOWN));
    assert_eq!(of.run("releases", &[at]), 0);
    assert_eq!(of.try_run("byte", &[0]), Err(Trap::Memory));
}

#[test]
fn who_may_not_read_files_is_lent_none() {
    if !can_run() {
        return;
    }
    let names = ["openat", "pread", "pwrite"];
    let some = names.iter().fold(Calls::without_files(), |calls, name| {
        calls.and_named(name).expect("there is one")
    });
    let output: Import = Box::new(|_, _| 0);
    let made = Instance::of(module(), HEAP, some, vec![("tane_output", output)]);
    match made {
        Err(Error::Import(name)) => assert!(name.starts_with("tane_"), "{name}"),
        Err(error) => panic!("{error:?}"),
        Ok(_) => panic!("it was made"),
    }
}
