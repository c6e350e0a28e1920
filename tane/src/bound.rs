//! Calls of a kernel that goes back: what each is about is looked up in one of the kernel's
//! moments, and it is done in that one, or not at all. Between two of them the kernel may go
//! back on another thread, and a number be somebody else's.

use crate::ages::{Age, Ages, Given};
use crate::kernel::Kernel;
use crate::machine::{Local, Machine};
use std::cell::Cell;
use std::{ptr, thread};
use tane_linux::Errno;

/// Whose moment it is. A call may reach another kernel on the same thread, whose file is the
/// first one's disk.
type Whose = *const Local;

/// What the next call of this thread's to a kernel is about.
#[derive(Clone, Copy)]
struct Subject {
    whose: Whose,
    /// In which all of it was there.
    moment: u64,
    ages: [u64; 2],
    count: usize,
}

const NOTHING: Subject = Subject {
    whose: ptr::null(),
    moment: u64::MAX,
    ages: [0; 2],
    count: 0,
};

impl Subject {
    fn and(mut self, whose: Whose, age: &Age, now: u64) -> Self {
        if self.whose != whose {
            self = NOTHING;
        }
        self.whose = whose;
        self.moment = self.moment.min(now);
        if let Some(place) = self.ages.get_mut(self.count) {
            *place = age.number();
        }
        self.count += 1;
        self
    }

    /// Whether it is there; it never is if there was no place to remember it.
    fn is_there(&self, ages: &Ages) -> bool {
        let known = self.ages.get(..self.count);
        known.is_some_and(|all| all.iter().all(|age| ages.has(*age)))
    }
}

thread_local! {
    static NEXT: Cell<Subject> = const { Cell::new(NOTHING) };
    /// The moment to which all calls of this thread's to a kernel are bound.
    static ALL: Cell<(Whose, u64)> = const { Cell::new((ptr::null(), 0)) };
}

/// What is said of this thread's calls now holds for them until this is dropped.
struct Said((Whose, u64));

impl Said {
    fn new(whose: Whose, moment: u64) -> Self {
        NEXT.set(NOTHING);
        Said(ALL.replace((whose, moment)))
    }
}

impl Drop for Said {
    fn drop(&mut self) {
        ALL.set(self.0);
        NEXT.set(NOTHING);
    }
}

const REFUSED: i64 = -(libc::EBADF as i64);

impl Local {
    /// All calls of this thread's to this kernel in `work` are of this moment, or are refused
    /// with EBADF.
    fn within<T>(&self, moment: u64, work: impl FnOnce() -> T) -> T {
        let _said = Said::new(self, moment);
        work()
    }

    /// A call, of a kernel that goes back perhaps. Its arguments are words, so that the way that does
    /// not come here has them in registers only.
    ///
    /// # Safety
    /// As of the call.
    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "as many as a system call has")]
    pub unsafe fn call_in_time(
        &self,
        nr: i64,
        a: u64,
        b: u64,
        c: u64,
        d: u64,
        e: u64,
        f: u64,
    ) -> i64 {
        let args = [a, b, c, d, e, f];
        let (whose, all) = ALL.get();
        let all = (whose == ptr::from_ref(self)).then_some(all);
        let subject = NEXT.get();
        let next = (subject.whose == ptr::from_ref(self)).then_some(subject.moment);
        if next.is_some() {
            NEXT.set(NOTHING);
        }
        let Some(mut moment) = all.into_iter().chain(next).min() else {
            // SAFETY: as the caller promises.
            return unsafe { self.syscall(nr, args) };
        };
        loop {
            // SAFETY: as the caller promises.
            if let Some(answer) = unsafe { self.syscall_within(moment, nr, args) } {
                return answer;
            }
            moment = self.moment();
            if all.is_some() || !subject.is_there(&self.ages) {
                return REFUSED;
            }
        }
    }

    fn still_has(&self, age: &Age, now: u64) -> bool {
        // `now` was read before: who goes back tells the ages, and then begins a new moment.
        let there = !age.is_undone();
        if there {
            NEXT.set(NEXT.get().and(self, age, now));
        }
        there
    }

    fn dated<T, E: Refusal>(&self, mut open: impl FnMut() -> Result<T, E>) -> Result<(T, Age), E> {
        loop {
            let now = self.moment();
            let Some(age) = self.ages.age(now) else {
                // Somebody is about to begin the next one.
                thread::yield_now();
                continue;
            };
            match self.within(now, &mut open) {
                Ok(opened) => return Ok((opened, age)),
                Err(error) if error.may_be_refusal() && self.moment() != now => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn take_back(&self, what: Given, age: &Age) {
        let (nr, args) = what.back();
        loop {
            let now = self.moment();
            if age.is_undone() {
                return;
            }
            let Some(closing) = self.ages.begin_closing(what, age, now) else {
                thread::yield_now();
                continue;
            };
            // SAFETY: what is the caller's, and nobody uses it any more.
            let done = unsafe { self.syscall_within(now, nr, args) };
            if done.is_some() || !self.ages.is_still_open(what, age, &closing) {
                return;
            }
        }
    }

    /// The same of what a checkpoint had and nobody has any more, in a kernel that has just
    /// gone back to it and does not do so again meanwhile.
    pub fn take_back_all(&self, all: &[Given]) {
        let now = self.moment();
        for what in all {
            let (nr, args) = what.back();
            // SAFETY: nobody's.
            unsafe { self.syscall_within(now, nr, args) };
        }
    }
}

impl Kernel {
    /// What somebody opened just now.
    pub(crate) fn age(&self) -> Age {
        match self.machine() {
            Machine::Tane(local) => loop {
                match local.ages.age(local.moment()) {
                    Some(age) => return age,
                    None => thread::yield_now(),
                }
            },
            // These do not go back.
            Machine::Host | Machine::Remote(_) => Age::default(),
        }
    }

    /// Whether what is of this age is there. Then the next call of this thread's is about
    /// it, and is answered with EBADF if it is undone before that.
    #[inline]
    pub(crate) fn has(&self, age: &Age) -> bool {
        match self.machine() {
            Machine::Tane(local) => match local.moment() {
                0 => true,
                now => local.still_has(age, now),
            },
            Machine::Host | Machine::Remote(_) => true,
        }
    }

    /// Open or map something, and know when.
    pub(crate) fn dated<T, E: Refusal>(
        &self,
        mut open: impl FnMut() -> Result<T, E>,
    ) -> Result<(T, Age), E> {
        match self.machine() {
            Machine::Tane(local) => local.dated(open),
            Machine::Host | Machine::Remote(_) => Ok((open()?, Age::default())),
        }
    }

    /// Close or unmap what was opened then, unless that was undone.
    pub(crate) fn take_back(&self, what: Given, age: &Age) {
        match self.machine() {
            Machine::Tane(local) => local.take_back(what, age),
            Machine::Host | Machine::Remote(_) => {
                let (nr, args) = what.back();
                // SAFETY: what is the caller's, and nobody uses it any more.
                unsafe { self.syscall(nr, args) };
            }
        }
    }
}

/// An error of a call that may not have been done.
pub(crate) trait Refusal {
    fn may_be_refusal(&self) -> bool;
}

impl Refusal for Errno {
    fn may_be_refusal(&self) -> bool {
        self.0 == libc::EBADF
    }
}

impl Refusal for std::io::Error {
    fn may_be_refusal(&self) -> bool {
        self.raw_os_error() == Some(libc::EBADF)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extents::Extents;
    use crate::region::{Region, Request};

    fn boot() -> Option<Kernel> {
        let image = tane_test_support::has_kernel(crate::default_image())?;
        Some(crate::Builder::new().image(image).boot().expect("boots"))
    }

    fn create(kernel: &Kernel, name: &std::ffi::CStr) -> tane_linux::Result<crate::sys::Fd> {
        kernel.openat(libc::AT_FDCWD, name, libc::O_CREAT | libc::O_RDWR, 0o600)
    }

    fn write(kernel: &Kernel, number: i32, bytes: &[u8]) -> i64 {
        let (at, len) = (bytes.as_ptr() as u64, bytes.len() as u64);
        // SAFETY: reads these bytes.
        unsafe { kernel.syscall(libc::SYS_write, [number as u64, at, len, 0, 0, 0]) }
    }

    /// A disk of one kernel may be a file of another, which the same thread then calls.
    #[test]
    fn what_a_call_is_about_is_of_one_kernel() {
        let (Some(one), Some(other)) = (boot(), boot()) else {
            return;
        };
        let file = create(&other, c"/file").expect("opens");
        let (_of_one, of_other) = (one.checkpoint(), other.checkpoint());
        let of_other = of_other.expect("a checkpoint");
        other.rollback(&of_other).expect("goes back");
        let opened = one.dated(|| {
            assert_eq!(write(&other, file.raw(), b"inside"), 6);
            create(&one, c"/own")
        });
        opened.expect("opens");
        // Looked up in one, and then the other is called first.
        let own = create(&one, c"/own").expect("opens");
        let number = own.raw();
        assert_eq!(write(&other, file.raw(), b"between"), 7);
        assert_eq!(write(&one, number, b"own"), 3);
    }

    #[test]
    fn who_only_sees_a_number_makes_no_call_about_it() {
        let Some(kernel) = boot() else { return };
        let checkpoint = kernel.checkpoint().expect("a checkpoint");
        let tree = kernel.tree("/").expect("a tree");
        let seen = (tree.root_fd(), format!("{tree:?}"));
        assert!(seen.1.contains(&seen.0.to_string()));
        kernel.rollback(&checkpoint).expect("goes back");
        // SAFETY: without pointers.
        let number = unsafe { kernel.syscall(libc::SYS_getpid, [0; 6]) };
        assert!(number > 0, "{number}");
    }

    /// Of a thread that has looked up what its call is about, and calls when that is undone.
    #[test]
    fn a_call_that_comes_too_late_does_not_reach_another_file() {
        let Some(kernel) = boot() else { return };
        let open = |name| create(&kernel, name);
        let write = |number: i32, bytes: &[u8]| write(&kernel, number, bytes);
        let before = open(c"/before").expect("opens");
        let checkpoint = kernel.checkpoint().expect("a checkpoint");
        let since = open(c"/since").expect("opens");
        let go_back = || {
            let other = || {
                kernel.rollback(&checkpoint).expect("goes back");
                open(c"/another").expect("opens")
            };
            std::thread::scope(|scope| scope.spawn(other).join().expect("ends"))
        };

        let number = since.raw();
        let another = go_back();
        assert_eq!(another.number(), number);
        assert_eq!(write(number, b"late"), -i64::from(libc::EBADF));
        // The call that was refused is over.
        assert_eq!(write(number, b"next"), 4);
        // What was there before is there still.
        let number = before.raw();
        drop(go_back());
        assert_eq!(write(number, b"before"), 6);
    }

    /// A number is the file's in the moment in which it is used, not in that in which somebody
    /// wanted it.
    #[test]
    fn what_takes_many_calls_does_not_reach_another_file() {
        let Some(kernel) = boot() else { return };
        let open = |name| create(&kernel, name).expect("opens");
        let checkpoint = kernel.checkpoint().expect("a checkpoint");
        let since = open(c"/since");
        let request = Request {
            len: 4096,
            prot: libc::PROT_READ,
            flags: libc::MAP_SHARED,
            file: Some(&since),
            offset: 0,
        };
        let mut extents = Extents::of(&kernel, &since, 1);
        kernel.rollback(&checkpoint).expect("goes back");
        let another = open(c"/another");
        assert_eq!(write(&kernel, another.raw(), b"another"), 7);
        let mapped = Region::new(&kernel, &request).map(drop);
        assert_eq!(mapped, Err(Errno(libc::EBADF)));
        let found = extents.next().expect("an answer").map_err(|e| e.errno());
        assert_eq!(found, Err(libc::EBADF));
        let request = Request {
            file: Some(&another),
            ..request
        };
        assert!(Region::new(&kernel, &request).is_ok());
    }
}
