//! Signals inside the kernel, for a thread that waits for a page of a mapping.

mod medium;
mod scratch;

use medium::{Medium, Random};
use scratch::boot;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::Arc;
use std::time::Duration;
use tane::images::Fault;
use tane::{DiskOptions, MapOptions, MountOptions};

const PAGE: usize = 4096;
const SIGNAL: u64 = libc::SIGSTKFLT as u64;

#[test]
fn a_page_comes_to_a_thread_that_signals_interrupt() {
    let (kernel, medium) = (boot(), Medium::mke2fs(16, "-t ext4"));
    let mount = medium.mount(&kernel).unwrap();
    let content = Random(7).bytes(1024 * PAGE);
    mount.write("f", &content).unwrap();
    mount.unmount().unwrap();

    let fault = Arc::new(Fault::logging(medium.disk()));
    // Long enough for a signal to come meanwhile.
    fault.plan(|_| {
        std::thread::sleep(Duration::from_millis(2));
        None
    });
    let disk = kernel.add_disk(fault, &DiskOptions::new()).unwrap();
    let mount = MountOptions::new().mount(&kernel, disk.device()).unwrap();
    let call = |nr, args| {
        // SAFETY: the one structure is as large as the call wants it.
        unsafe { kernel.try_syscall(nr, args).expect("signals") }
    };
    // One that is not to be ignored; nobody runs its handler.
    let action = [1_u64 << 12, 0, 0, 0];
    let at = action.as_ptr() as u64;
    call(libc::SYS_rt_sigaction, [SIGNAL, at, 0, 8, 0, 0]);
    let thread = call(libc::SYS_gettid, [0; 6]) as u64;

    let file = mount.open("f").unwrap();
    let map = file.map(&MapOptions::new()).unwrap();
    let (done, sent) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(SeqCst) {
                call(libc::SYS_tgkill, [1, thread, SIGNAL, 0, 0, 0]);
                sent.fetch_add(1, SeqCst);
            }
        });
        for at in (0..content.len()).step_by(PAGE) {
            // SAFETY: inside the mapping; nobody changes the file.
            let byte = unsafe { map.as_ptr().add(at).read_volatile() };
            if byte != content[at] {
                done.store(true, SeqCst);
                panic!("byte {at}: {:?}", map.check());
            }
        }
        done.store(true, SeqCst);
    });
    map.check().unwrap();
    assert!(sent.into_inner() > 0);
}
