//! tane_checkpoint, tane_rollback.

use crate::error::{answer, done, Failure};
use crate::kernel::TaneKernel;
use crate::pass::{give, handle, take};
use tane::Checkpoint;

pub struct TaneCheckpoint(Checkpoint);

#[no_mangle]
pub unsafe extern "C" fn tane_checkpoint(
    kernel: *mut TaneKernel,
    checkpoint: *mut *mut TaneCheckpoint,
) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| unsafe {
        let kernel = handle(kernel)?.local()?;
        give(checkpoint, || Ok(TaneCheckpoint(kernel.checkpoint()?)))
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_rollback(
    kernel: *mut TaneKernel,
    checkpoint: *const TaneCheckpoint,
) -> i32 {
    // SAFETY: as tane.h says.
    done(|| unsafe {
        let kernel = handle(kernel)?.local()?;
        Ok::<_, Failure>(kernel.rollback(&handle(checkpoint)?.0)?)
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_checkpoint_close(checkpoint: *mut TaneCheckpoint) {
    answer(|| {
        // SAFETY: as tane.h says.
        drop(unsafe { take(checkpoint) });
        Ok(0)
    });
}
