//! The host operations: what the kernel asks of its host. They run on the stack
//! of the host thread that is inside, the leaf ones on a kernel stack; none may
//! panic, block (but for a device reset) or enter the kernel.

use crate::abi;
use crate::address::{Physical, Virtual};
use crate::cpu::CpuNumber;
use crate::inner::Inner;
use crate::thread_slot::ThreadSlot;
use crate::{run, run_carriers};
use std::ffi::c_void;
use std::io;

pub type Host = *const c_void;

pub fn table(host: *const Inner) -> abi::Ops {
    abi::Ops {
        magic: abi::MAGIC,
        version: abi::VERSION,
        size: size_of::<abi::Ops>() as u32,
        host: host.cast(),
        monotonic,
        realtime,
        random,
        map,
        unmap,
        discard,
        kick,
        yield_,
        wake,
        log,
        die,
        notify,
        call_in,
        new_thread,
        stop,
    }
}

fn inner<'a>(host: Host) -> &'a Inner {
    // SAFETY: the table carries the address of the kernel that calls, which
    // exists while it runs.
    unsafe { &*host.cast() }
}

fn errno(result: io::Result<()>) -> i32 {
    match result {
        Ok(()) => 0,
        Err(error) => -error.raw_os_error().unwrap_or(libc::EIO),
    }
}

pub extern "sysv64" fn monotonic(host: Host) -> u64 {
    inner(host).clock.monotonic()
}

pub extern "sysv64" fn realtime(host: Host) -> u64 {
    inner(host).clock.realtime()
}

extern "sysv64" fn random(host: Host, buf: *mut u8, len: u64) -> i32 {
    // SAFETY: the kernel's buffer.
    let buf = unsafe { std::slice::from_raw_parts_mut(buf, len as usize) };
    if inner(host).clock.random(buf) {
        0
    } else {
        -libc::EIO
    }
}

extern "sysv64" fn map(host: Host, va: u64, pa: u64, len: u64, prot: u32) -> i32 {
    let mut host_prot = libc::PROT_NONE;
    for (bit, flag) in [
        (abi::PROT_READ, libc::PROT_READ),
        (abi::PROT_WRITE, libc::PROT_WRITE),
        (abi::PROT_EXEC, libc::PROT_EXEC),
    ] {
        if prot & bit != 0 {
            host_prot |= flag;
        }
    }
    let (va, pa) = (Virtual(va), Physical(pa));
    errno(inner(host).memory.map(va, pa, len, host_prot))
}

extern "sysv64" fn unmap(host: Host, va: u64, len: u64) -> i32 {
    let kernel = inner(host);
    if len == 0 {
        if va == 0 {
            kernel.look_at_windows();
        }
        return 0;
    }
    let done = kernel.memory.unmap(Virtual(va), len);
    kernel.windows_change();
    errno(done)
}

extern "sysv64" fn discard(host: Host, pa: u64, len: u64) -> i32 {
    errno(inner(host).memory.discard(Physical(pa), len))
}

pub extern "sysv64" fn kick(host: Host, cpu: u32) {
    let (kernel, cpu) = (inner(host), CpuNumber(cpu));
    if kernel.put_off(cpu) {
        return;
    }
    kernel.cpu(cpu).kick();
}

pub extern "sysv64" fn yield_(host: Host) {
    inner(host).do_kicks();
    inner(host).long_wait();
    // SAFETY: no arguments.
    unsafe { libc::sched_yield() };
}

pub extern "sysv64" fn wake(host: Host, thread: *const abi::Thread) {
    // SAFETY: a slot of the shared area.
    let slot = unsafe { ThreadSlot::at(thread as u64) };
    run_carriers::answered(inner(host), slot);
}

extern "sysv64" fn log(host: Host, text: *const u8, len: u64) {
    // SAFETY: the kernel's text.
    let text = unsafe { std::slice::from_raw_parts(text, len as usize) };
    inner(host).log.write(text);
}

extern "sysv64" fn die(host: Host, code: u32, text: *const u8, len: u64) {
    // SAFETY: the kernel's text.
    let text = unsafe { std::slice::from_raw_parts(text, len as usize) };
    inner(host).kernel_died(code, &String::from_utf8_lossy(text));
}

extern "sysv64" fn call_in(_: Host, thread: *const abi::Thread) {
    // SAFETY: a slot of the shared area.
    run::call_in(unsafe { ThreadSlot::at(thread as u64) });
}

extern "sysv64" fn new_thread(host: Host, _: *const abi::Thread) -> *mut abi::Thread {
    run::new_thread(inner(host)).map_or(std::ptr::null_mut(), ThreadSlot::ptr)
}

extern "sysv64" fn stop(_: Host, thread: *const abi::Thread, wait: u32) {
    // SAFETY: a slot of the shared area.
    run::stop(unsafe { ThreadSlot::at(thread as u64) }, wait != 0);
}

extern "sysv64" fn notify(host: Host, slot: u32, queue: u32) {
    inner(host).clock.works();
    inner(host).notify(slot, queue);
}
