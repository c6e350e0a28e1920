//! A module beside a kernel: its system calls are function calls, and reach neither memory
//! outside its window nor files outside its directory; its faults and its time end it, and
//! neither the kernel nor the process.

mod common;

use common::can_run;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;
use tane_checked_build::{build, Options};
use tane_checked_run::{Calls, Error, Import, Instance, Linux, Trap};
use tane_host::{Builder, Image, Kernel};

const HEAP: u64 = 1 << 20;
const EFAULT: u64 = -(libc::EFAULT as i64) as u64;
const ENOENT: u64 = -(libc::ENOENT as i64) as u64;

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
    assert_eq!(syscall(&kernel, libc::SYS_mkdir, &[at, 0o700]), 0);
    kernel
}

fn syscall(kernel: &Kernel, nr: i64, args: &[u64]) -> i64 {
    let mut six = [0; 6];
    six[..args.len()].copy_from_slice(args);
    // SAFETY: pointers are to strings and buffers of the tests.
    unsafe { kernel.syscall(nr, six) }
}

fn module() -> &'static [u8] {
    static MODULE: OnceLock<Vec<u8>> = OnceLock::new();
    MODULE.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/linux.c");
        let options = Options {
            imports: Calls::all()
                .list()
                .map(|call| call.name.to_owned())
                .collect(),
            ..Options::default()
        };
        build(&[&source], &options).unwrap_or_else(|e| panic!("{e}"))
    })
}

fn on(kernel: &Kernel) -> Instance {
    let directory = Some(c"/data");
    Instance::on(
        Linux {
            kernel,
            directory,
            descriptors: 1,
        },
        module(),
        HEAP,
        Vec::new(),
    )
    .unwrap_or_else(|e| panic!("{e:?}"))
}

fn run(instance: &mut Instance, name: &str, arguments: &[u64]) -> u64 {
    let result = instance.call(name, arguments).expect("it is exported");
    result.unwrap_or_else(|trap| panic!("{name} {arguments:x?}: {trap:?}"))
}

fn open(instance: &mut Instance, path: &str) -> u64 {
    let at = run(instance, "where", &[]);
    let bytes = [path.as_bytes(), b"\0"].concat();
    assert!(instance.memory().write(at, &bytes));
    run(instance, "open_path", &[])
}

#[test]
fn a_module_makes_system_calls_of_the_kernel_beside_it() {
    if !can_run() {
        return;
    }
    let kernel = boot();
    let mut instance = on(&kernel);
    assert_eq!(run(&mut instance, "parents", &[100_000]), 0);
    assert_eq!(run(&mut instance, "file", &[]), 4096);
    let mut stat = [0u64; 18];
    let args = [c"/data/made".as_ptr() as u64, stat.as_mut_ptr() as u64];
    assert_eq!(syscall(&kernel, libc::SYS_stat, &args), 0);
    assert_eq!(stat[6], 4096, "st_size");
    // The same thread's own calls, in between.
    for _ in 0..100 {
        assert_eq!(run(&mut instance, "parents", &[30]), 0);
        assert_eq!(syscall(&kernel, libc::SYS_getpid, &[]), 1);
    }
    assert_eq!(run(&mut instance, "all", &[]), 1);
}

#[test]
fn it_sees_no_file_outside_its_directory() {
    if !can_run() {
        return;
    }
    let kernel = boot();
    let proc = c"/proc".as_ptr() as u64;
    syscall(&kernel, libc::SYS_mkdir, &[proc, 0o700]);
    syscall(
        &kernel,
        libc::SYS_mount,
        &[proc, proc, c"proc".as_ptr() as u64, 0, 0],
    );
    // Descriptors of the process are not its.
    let args = [proc, libc::O_DIRECTORY as u64];
    let held = [0; 20].map(|_| syscall(&kernel, libc::SYS_open, &args));
    assert!(held[0] >= 0 && held[19] >= 19, "{held:?}");
    let mut instance = on(&kernel);
    run(&mut instance, "file", &[]);
    assert!((open(&mut instance, "/made") as i64) >= 0);
    for path in [
        "/proc/self/mem",
        "../proc/self/mem",
        "/../proc",
        "/dev/kmem",
    ] {
        assert_eq!(open(&mut instance, path), ENOENT, "{path}");
    }
    let at = run(&mut instance, "where", &[]);
    assert_eq!(
        run(&mut instance, "read_at", &[held[19] as u64, at, 1]) as i64,
        -9
    );
    // A way up by what it was given.
    assert!((open(&mut instance, "..") as i64) >= 0);
    assert_eq!(open(&mut instance, "../../proc"), ENOENT);
}

#[test]
fn no_pointer_reaches_what_is_not_its_memory() {
    if !can_run() {
        return;
    }
    let kernel = boot();
    let mut instance = on(&kernel);
    let at = run(&mut instance, "where", &[]);
    let (base, heap) = (kernel.layout().base, instance.heap());
    let mine: Vec<u64> = vec![0xa5a5_a5a5_a5a5_a5a5; 512];
    let canary = mine.as_ptr() as u64;
    let end = 1 << 32;
    // Null, the guard below code, code, what is above the heap, and the window's end.
    for at in [0, 1, 0xffff, 0x1_0000, heap + HEAP, end - 4096, end - 1] {
        assert_eq!(run(&mut instance, "time_at", &[at]), EFAULT, "{at:x}");
        assert_eq!(run(&mut instance, "random_at", &[at, 64]), EFAULT, "{at:x}");
        assert_eq!(
            run(&mut instance, "write_at", &[0, at, 64]) as i64,
            -9,
            "{at:x}"
        );
    }
    // Long ones: up to the end of what is there, or nothing.
    for bytes in [u64::MAX, 1 << 63, 1 << 47, end, end - at] {
        let got = run(&mut instance, "random_at", &[at, bytes]) as i64;
        assert!(
            got == EFAULT as i64 || got <= (heap + HEAP - at) as i64,
            "{got}"
        );
    }
    // What lies outside has an address of more than 32 bits: they do not count.
    let window = instance.window().as_ptr() as u64;
    for outside in [
        canary,
        base,
        base + 4096,
        window - 4096,
        window - 8192,
        window + end,
    ] {
        for at in [outside, outside | 1 << 63] {
            let before = instance.memory().read(0x1_0000, 4096);
            run(&mut instance, "time_at", &[at]);
            run(&mut instance, "random_at", &[at, 64]);
            run(&mut instance, "read_at", &[0, at, 64]);
            run(&mut instance, "write_at", &[1, at, 64]);
            assert_eq!(instance.memory().read(0x1_0000, 4096), before);
        }
    }
    assert!(mine.iter().all(|word| *word == 0xa5a5_a5a5_a5a5_a5a5));
    assert_eq!(run(&mut instance, "file", &[]), 4096);
    assert!(kernel.is_alive());
}

#[test]
fn a_module_that_goes_on_for_ever_is_ended_wherever_it_is() {
    if !can_run() {
        return;
    }
    let kernel = boot();
    let at = c"/data/fifo".as_ptr() as u64;
    assert_eq!(syscall(&kernel, libc::SYS_mknod, &[at, 0o010_600, 0]), 0);
    let (mut instance, mut without_limit) = (on(&kernel), on(&kernel));
    instance.limit(Duration::from_millis(50)).expect("a thread");
    for name in ["for_ever", "calls_for_ever", "waits_for_ever"] {
        for _ in 0..3 {
            let result = instance.call(name, &[]).expect("it is exported");
            assert_eq!(result, Err(Trap::Time), "{name}");
            assert_eq!(run(&mut without_limit, "file", &[]), 4096);
        }
    }
    assert_eq!(syscall(&kernel, libc::SYS_getpid, &[]), 1);
    assert!(kernel.is_alive());
}

#[test]
fn faults_of_a_module_end_it_and_not_the_kernel() {
    if !can_run() {
        return;
    }
    let kernel = boot();
    let mut instance = on(&kernel);
    for _ in 0..10 {
        assert_eq!(run(&mut instance, "parents", &[100]), 0);
        let result = instance.call("divides", &[0]).expect("it is exported");
        assert_eq!(result, Err(Trap::Divide));
    }
    // Faults in a kernel's windows are still the kernel's.
    let args = [
        0,
        1 << 16,
        3,
        libc::MAP_PRIVATE as u64 | libc::MAP_ANONYMOUS as u64,
        !0,
        0,
    ];
    let shown = syscall(&kernel, libc::SYS_mmap, &args);
    assert!(shown > 0, "{shown}");
    // SAFETY: just mapped, for this process.
    unsafe { (shown as *mut u64).write_volatile(7) };
    assert_eq!(run(&mut instance, "parents", &[100]), 0);
}

#[test]
fn without_a_directory_there_are_no_calls_on_files() {
    if !can_run() {
        return;
    }
    let kernel = boot();
    let linux = Linux {
        kernel: &kernel,
        directory: None,
        descriptors: 1,
    };
    match Instance::on(linux, module(), HEAP, Vec::new()) {
        Err(Error::Import(name)) => {
            assert!(name == "read" || Calls::without_files().find(&name).is_none())
        }
        Err(error) => panic!("{error:?}"),
        Ok(_) => panic!("it was made"),
    }
}

#[test]
fn instances_come_and_go() {
    if !can_run() {
        return;
    }
    let kernel = boot();
    for _ in 0..15 {
        let (mut one, mut other) = (on(&kernel), on(&kernel));
        for _ in 0..20 {
            assert_eq!(run(&mut one, "parents", &[20]), 0);
            assert_eq!(run(&mut other, "parents", &[20]), 0);
        }
    }
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| assert_eq!(run(&mut on(&kernel), "parents", &[10_000]), 0));
        }
    });
}

#[test]
fn what_ended_one_call_too_late_does_not_interrupt_the_next() {
    if !can_run() {
        return;
    }
    let kernel = boot();
    let at = c"/data/fifo".as_ptr() as u64;
    assert_eq!(syscall(&kernel, libc::SYS_mknod, &[at, 0o010_600, 0]), 0);
    assert!(syscall(&kernel, libc::SYS_open, &[at, libc::O_RDWR as u64]) >= 0);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/late.c");
    let options = Options {
        imports: ["openat", "read", "host_waits"].map(str::to_owned).into(),
        ..Options::default()
    };
    let module = build(&[&source], &options).unwrap_or_else(|e| panic!("{e}"));
    let linux = Linux {
        kernel: &kernel,
        directory: Some(c"/data"),
        descriptors: 1,
    };
    let limit = Duration::from_millis(20);
    let waits: Import = Box::new(move |_, _| {
        std::thread::sleep(limit * 2);
        7
    });
    let made = Instance::on(linux, &module, HEAP, vec![("host_waits", waits)]);
    let mut instance = made.unwrap_or_else(|e| panic!("{e:?}"));
    let fifo = run(&mut instance, "opens", &[]);
    assert!((fifo as i64) >= 0, "{fifo:x}");
    instance.limit(limit).expect("a thread");
    let mut well = 0;
    for _ in 0..20 {
        let late = instance.call("waits_in_the_host", &[]).expect("exported");
        well += u32::from(late == Ok(7));
        let slept = instance.call("reads", &[fifo]).expect("exported");
        assert_eq!(slept, Err(Trap::Time), "after {late:?}");
    }
    assert!(well > 0, "no call ended well after its time");
}
