// SPDX-License-Identifier: GPL-2.0-only

package tane

/*
#include <tane.h>
*/
import "C"

import "runtime"

// Checkpoint is a state of a kernel that it can go back to, with what is mounted and open
// and what its disks hold. Any goroutine may use it; [Checkpoint.Close] forgets it.
type Checkpoint struct {
	handle *C.struct_tane_checkpoint
	kernel *Kernel
}

// Checkpoint remembers what the kernel is now; it must be one of [Boot]. The first one of a
// kernel copies its memory, some milliseconds; later ones what was written since. Calls of
// other goroutines are waited for, and new ones wait meanwhile.
//
// Disks must be able to go back: those of [Kernel.AddRAMDisk], and images that are
// opened without Write or with the Overlay ":memory:". Errors are an [Error]: EBUSY a call waits
// for something inside, or requests to disks do not end; ENOTSUP a disk cannot go back, or the
// kernel is that of a jailed image; ESHUTDOWN the kernel has ended.
func (k *Kernel) Checkpoint() (*Checkpoint, error) {
	checkpoint := &Checkpoint{kernel: k}
	err := explained(func() C.int { return C.tane_checkpoint(k.handle, &checkpoint.handle) })
	if err != nil {
		return nil, err
	}
	runtime.SetFinalizer(checkpoint, (*Checkpoint).Close)
	return checkpoint, nil
}

// Rollback has the kernel be again what it was at this checkpoint, as often as is wanted;
// newer ones are none any more. What was synced since is undone as well. Files and file
// systems that were opened before go on; files opened since answer EBADF, and are
// still to be closed. Time goes on; random numbers may come a second time.
//
// Errors: those of [Kernel.Checkpoint]; EINVAL the checkpoint is another kernel's; ESTALE the
// kernel has gone back to an older one; EBUSY a disk was added or removed since. The kernel
// is as it was before the call then.
func (k *Kernel) Rollback(checkpoint *Checkpoint) error {
	defer runtime.KeepAlive(checkpoint)
	return explained(func() C.int { return C.tane_rollback(k.handle, checkpoint.handle) })
}

// Close forgets the state and leaves the kernel as it is. Closing twice does no harm.
func (c *Checkpoint) Close() error {
	runtime.SetFinalizer(c, nil)
	C.tane_checkpoint_close(c.handle)
	c.handle = nil
	return nil
}
