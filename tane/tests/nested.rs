//! Promises about calls from within a call: what the kernel calls cannot wait for it.

mod inside;

use inside::{builder, call};
use std::io;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tane::images::{Backend, Buffers, Ram};
use tane::{DiskOptions, Kernel, OpenOptions};

const READS: usize = 50;
/// Calls in between, so many that a thread may keep its CPU.
const CALLS: usize = 100;
const PATIENCE: Duration = Duration::from_secs(60);

/// A disk that calls the kernel whose it is whenever that reads, from within its call.
struct Asks {
    disk: Arc<Ram>,
    kernel: Mutex<Option<Kernel>>,
    answers: Mutex<Vec<i32>>,
}

impl Asks {
    /// A call about nothing, and one that is of a moment.
    fn ask(&self) {
        let kernel = self.kernel.lock().expect("the kernel");
        let Some(kernel) = &*kernel else { return };
        let opened = kernel.tree("/").map(drop).map_err(|e| e.errno());
        let answers = [call(kernel, libc::SYS_getppid, &[]).map(drop), opened];
        let errnos = answers.map(|answer| answer.err().unwrap_or(0));
        self.answers.lock().expect("the answers").extend(errnos);
    }
}

impl Backend for Asks {
    fn size(&self) -> u64 {
        self.disk.size()
    }

    fn read_only(&self) -> bool {
        true
    }

    fn read(&self, to: Buffers, offset: u64) -> io::Result<()> {
        self.ask();
        self.disk.read(to, offset)
    }

    fn write(&self, from: Buffers, offset: u64) -> io::Result<()> {
        self.disk.write(from, offset)
    }

    fn flush(&self) -> io::Result<()> {
        self.disk.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        self.disk.discard(offset, len)
    }

    fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> io::Result<()> {
        self.disk.write_zeroes(offset, len, may_unmap)
    }
}

/// What the disk was answered while a thread read from it.
fn answers(kernel: &Kernel) -> Vec<i32> {
    let disk = Arc::new(Asks {
        disk: Arc::new(Ram::new(1 << 20).expect("memory")),
        kernel: Mutex::default(),
        answers: Mutex::default(),
    });
    // By the thread that calls.
    let mut options = DiskOptions::new();
    options.in_order(true).read_only(true);
    let added = kernel.add_disk(disk.clone(), &options).expect("is added");
    let name = added.device().file_name().expect("a name").to_owned();
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_DIRECT);
    let device = options.open(&inside::dev(kernel), name).expect("opens");
    let mut page = kernel.buffer(4096).expect("memory of the kernel's");
    let checkpoint = kernel.checkpoint().expect("a checkpoint");
    *disk.kernel.lock().expect("the kernel") = Some(kernel.clone());
    for _ in 0..READS {
        for _ in 0..CALLS {
            device.metadata().expect("is there");
        }
        assert_eq!(device.read_at(&mut page, 0).expect("reads"), 4096);
    }
    *disk.kernel.lock().expect("the kernel") = None;
    drop(checkpoint);
    let mut answers = disk.answers.lock().expect("the answers");
    std::mem::take(&mut answers)
}

/// In time: it would wait for itself, for the lock that its own thread has.
#[track_caller]
fn are_refused(kernel: Kernel) {
    let (done, ended) = channel();
    std::thread::spawn(move || done.send(answers(&kernel)));
    let answers = ended.recv_timeout(PATIENCE).unwrap_or_else(|_| {
        // Such a thread would not let the process exit either.
        eprintln!("a call from within a call waits for itself");
        std::process::abort()
    });
    assert!(answers.len() >= 2 * READS, "{} calls", answers.len());
    assert_eq!(answers, vec![libc::EDEADLK; answers.len()]);
}

#[test]
fn a_call_from_within_a_call_is_refused_as_a_deadlock() {
    let Some(builder) = builder("tiny") else {
        return;
    };
    are_refused(builder.boot().unwrap_or_else(|e| panic!("{e}")));
}

/// Until all is done that a call has set going.
#[test]
fn a_call_from_within_a_call_does_not_wait_while_time_stands_still() {
    let Some(builder) = builder("tiny") else {
        return;
    };
    let kernel = builder.deterministic(946_684_800, 1).boot();
    are_refused(kernel.unwrap_or_else(|e| panic!("{e}")));
}
