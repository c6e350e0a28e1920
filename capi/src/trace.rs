//! tane_trace_*.

use crate::error::{answer, answer64, Failure, Result};
use crate::kernel::TaneKernel;
use crate::pass::{self, give, handle, read_or_zero, take, text, Sized_};
use std::ffi::{c_char, CString};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tane::Kernel;
use tane_lab::{Error, Lab, Recorder, Trace};

#[repr(C)]
pub struct RawTraceOptions {
    size: usize,
    function: *const c_char,
    buffer: u64,
    depth: u32,
    reserved: u32,
}

// SAFETY: integers and a pointer.
unsafe impl Sized_ for RawTraceOptions {}

#[repr(C)]
pub struct RawTraced {
    size: usize,
    function: *const c_char,
    thread: u64,
    start: u64,
    duration: u64,
    own: u64,
    depth: u32,
    error: i32,
}

// SAFETY: integers and a pointer.
unsafe impl Sized_ for RawTraced {}

/// Kernels that are traced: each has one tracer.
static TRACED: Mutex<Vec<Kernel>> = Mutex::new(Vec::new());

fn traced() -> MutexGuard<'static, Vec<Kernel>> {
    TRACED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Among them, until it is dropped.
struct Registered(Kernel);

impl Registered {
    fn take(kernel: &Kernel) -> Result<Registered> {
        let mut all = traced();
        if all.contains(kernel) {
            let text = "trace: there is one of this kernel already: close it first";
            return Err(Failure::new(libc::EBUSY, text));
        }
        all.push(kernel.clone());
        Ok(Registered(kernel.clone()))
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        traced().retain(|other| *other != self.0);
    }
}

struct Traced {
    function: CString,
    thread: u64,
    call: tane_lab::Call,
    own: u64,
}

#[derive(Default)]
struct Record {
    calls: Vec<Traced>,
    lost: u64,
}

pub struct TaneTrace {
    /// Goes before what it borrows from.
    recorder: Option<Recorder<'static>>,
    lab: *mut Lab,
    record: Mutex<Option<Record>>,
    _registered: Registered,
}

// SAFETY: the pointer is to a Lab of its own, which any thread may use.
unsafe impl Send for TaneTrace {}
// SAFETY: as above.
unsafe impl Sync for TaneTrace {}

impl Drop for TaneTrace {
    fn drop(&mut self) {
        drop(self.recorder.take());
        // SAFETY: of start(), and nobody borrows from it any more.
        drop(unsafe { Box::from_raw(self.lab) });
    }
}

fn failure(error: Error) -> Failure {
    let errno = match &error {
        Error::NoTracers | Error::NoModules => libc::EOPNOTSUPP,
        Error::Refused { .. } => libc::EINVAL,
        Error::Kernel(error) => error.errno(),
        Error::File(error) => tane::errno_or_guess(error),
        Error::Record(_) => libc::EIO,
    };
    Failure::new(errno, format!("trace: {error}"))
}

fn start(kernel: &Kernel, function: Option<String>, raw: &RawTraceOptions) -> Result<TaneTrace> {
    let registered = Registered::take(kernel)?;
    let lab = kernel.trace().map_err(failure)?;
    let mut trace = TaneTrace {
        recorder: None,
        lab: Box::into_raw(Box::new(lab)),
        record: Mutex::new(None),
        _registered: registered,
    };
    // SAFETY: it stays where it is until the recorder is gone.
    let lab: &'static Lab = unsafe { &*trace.lab };
    let mut recording = lab.recording().depth(raw.depth);
    if let Some(function) = function {
        recording = recording.function(&function);
    }
    if raw.buffer != 0 {
        recording = recording.buffer(raw.buffer);
    }
    let recorder = recording.prepare().map_err(failure)?;
    let recorder = trace.recorder.insert(recorder);
    recorder.start().map_err(failure)?;
    Ok(trace)
}

impl TaneTrace {
    fn stop(&self) -> Result<i64> {
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        if record.is_none() {
            let recorder = self.recorder.as_ref().ok_or_else(pass::null)?;
            let read = recorder.read().map_err(failure)?;
            let mut new = Record {
                lost: read.lost_calls,
                ..Record::default()
            };
            for thread in read.threads {
                for at in 0..thread.calls.calls.len() {
                    let call = thread.calls.calls[at].clone();
                    new.calls.push(Traced {
                        function: CString::new(call.function.as_str()).unwrap_or_default(),
                        thread: thread.id,
                        own: thread.calls.own(at),
                        call,
                    });
                }
            }
            *record = Some(new);
        }
        Ok(record
            .as_ref()
            .map_or(0, |record| record.calls.len() as i64))
    }

    fn with<T>(&self, look: impl FnOnce(&Record) -> Option<T>) -> Result<T> {
        let record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        let found = record.as_ref().and_then(look);
        let none = "trace: there is no such call, or the recording has not ended";
        found.ok_or_else(|| Failure::new(libc::EINVAL, none))
    }
}

#[no_mangle]
pub unsafe extern "C" fn tane_trace_start(
    kernel: *mut TaneKernel,
    options: *const RawTraceOptions,
    trace: *mut *mut TaneTrace,
) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| unsafe {
        let kernel = handle(kernel)?.local()?;
        let options = read_or_zero(options)?;
        let function = text(options.function)?;
        give(trace, || start(kernel, function, &options))
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_trace_stop(trace: *mut TaneTrace) -> i64 {
    // SAFETY: as tane.h says.
    answer64(|| unsafe { handle(trace) }?.stop())
}

#[no_mangle]
pub unsafe extern "C" fn tane_trace_call(
    trace: *const TaneTrace,
    number: u64,
    call: *mut RawTraced,
) -> i32 {
    answer(|| {
        // SAFETY: as tane.h says.
        let raw = unsafe { handle(trace) }?.with(|record| {
            let found = record.calls.get(usize::try_from(number).ok()?)?;
            Some(RawTraced {
                size: 0,
                function: found.function.as_ptr(),
                thread: found.thread,
                start: found.call.start,
                duration: found.call.duration,
                own: found.own,
                depth: found.call.depth,
                error: found.call.errno().unwrap_or(0),
            })
        })?;
        // SAFETY: as tane.h says.
        unsafe { pass::write(call, &raw) }?;
        Ok(0)
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_trace_lost(trace: *const TaneTrace) -> i64 {
    // SAFETY: as tane.h says.
    answer64(|| unsafe { handle(trace) }?.with(|record| Some(record.lost as i64)))
}

#[no_mangle]
pub unsafe extern "C" fn tane_trace_close(trace: *mut TaneTrace) {
    answer(|| {
        // SAFETY: as tane.h says.
        drop(unsafe { take(trace) });
        Ok(0)
    });
}
