//! membarrier(2): what one thread has all others of this process do.

use std::io;
use std::sync::OnceLock;

/// Make every running thread of this process pass a barrier of some kind.
pub fn membarrier(command: i32) -> io::Result<()> {
    // SAFETY: no memory involved.
    match unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// When this returns, no thread of the process goes on with instructions that its
/// processor has read before: code was changed. The first time takes as long as the
/// host needs to hear from all its CPUs, 10 ms or more. Linux 4.16.
pub fn forget_instructions() -> io::Result<()> {
    static REGISTERED: OnceLock<Result<(), i32>> = OnceLock::new();
    let register = || {
        let command = libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE;
        membarrier(command).map_err(|e| e.raw_os_error().unwrap_or(libc::EIO))
    };
    REGISTERED
        .get_or_init(register)
        .map_err(io::Error::from_raw_os_error)?;
    membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE)
}
