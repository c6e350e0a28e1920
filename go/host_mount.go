// SPDX-License-Identifier: GPL-2.0-only

package tane

/*
#include <stdlib.h>
#include <tane.h>
*/
import "C"

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// HostMountOptions say how a file system is shown to the host. The zero value, or nil, is
// the default.
type HostMountOptions struct {
	// Source is what the host's lists of mounts have as the device; "": "tane".
	Source string
	// AllowOther lets other users in, with the permissions in the image. Without,
	// whoever mounts is root there, and alone; but if root mounts, others are always
	// let in.
	AllowOther bool
	// XattrsIfAny says that extended attributes are not supported once all files were
	// found to have none: copying is faster then, and some programs take it for an error.
	XattrsIfAny bool
}

// HostMount is a file system at a directory of the host, for all programs; made by
// [FS.HostMount]. Any goroutine may use it.
type HostMount struct {
	// Calls hold it for reading, so that Close cannot take the handle away under one.
	lock   sync.RWMutex
	handle *C.struct_tane_host_mount
	point  string
}

// HostMount shows the file system, or the directory of it that Sub was asked for, at an
// existing directory of the host, by FUSE: all programs see the files there, and write if
// the image is open for that. Threads of this process answer for it, which ends with the
// process; the image's kernel stays where it is. What this process changes by the FS
// meanwhile may be seen late or not at all there.
//
// It takes /dev/fuse, and fusermount3 for who is not root. [FS.Close] is EBUSY, and the
// file system stays, until the HostMount was unmounted and closed.
func (f *FS) HostMount(point string, options *HostMountOptions) (*HostMount, error) {
	if options == nil {
		options = &HostMountOptions{}
	}
	for _, text := range []string{point, options.Source} {
		if strings.ContainsRune(text, 0) {
			return nil, &Error{syscall.EINVAL, "a name has no NUL"}
		}
	}
	var memory arena
	defer memory.free()
	given := (*C.struct_tane_host_mount_options)(memory.get(C.sizeof_struct_tane_host_mount_options))
	given.size = C.sizeof_struct_tane_host_mount_options
	if options.AllowOther {
		given.flags |= C.TANE_HOST_MOUNT_ALLOW_OTHER
	}
	if options.XattrsIfAny {
		given.flags |= C.TANE_HOST_MOUNT_XATTRS_IF_ANY
	}
	given.directory = memory.text(path.Join("/", f.below))
	given.source = memory.text(options.Source)
	at := C.CString(point)
	defer free(at)
	f.mount.RLock()
	defer f.mount.RUnlock()
	if f.mount.handle == nil {
		return nil, &fs.PathError{Op: "hostmount", Path: point, Err: fs.ErrClosed}
	}
	shown := &HostMount{}
	err := explained(func() C.int {
		return C.tane_host_mount(f.mount.handle, at, given, &shown.handle)
	})
	if err != nil {
		return nil, err
	}
	shown.point = C.GoString(C.tane_host_mount_point(shown.handle))
	runtime.SetFinalizer(shown, (*HostMount).drop)
	return shown, nil
}

// Point is the directory of the host, under its full name.
func (h *HostMount) Point() string { return h.point }

func (h *HostMount) call(call func(*C.struct_tane_host_mount) C.int) error {
	h.lock.RLock()
	defer h.lock.RUnlock()
	if h.handle == nil {
		return &fs.PathError{Op: "hostmount", Path: h.point, Err: fs.ErrClosed}
	}
	return explained(func() C.int { return call(h.handle) })
}

// Unmount ends it, and waits until nothing of it is under way: what the host's programs
// wrote is in the image when the FS was closed too. It is no error if somebody else was
// faster. syscall.EBUSY says that something in it is open, or somebody's working directory;
// it is there as before then.
func (h *HostMount) Unmount() error {
	return h.call(func(shown *C.struct_tane_host_mount) C.int { return C.tane_host_unmount(shown) })
}

// Wait waits until it has been unmounted, by whomever, or the context is done. Other
// errors say why it could not be served to the end.
func (h *HostMount) Wait(ctx context.Context) error {
	const rest = 50 * time.Millisecond
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := h.call(func(shown *C.struct_tane_host_mount) C.int {
			return C.tane_host_wait(shown, C.int64_t(rest.Milliseconds()))
		})
		if !errors.Is(err, syscall.ETIMEDOUT) {
			return err
		}
	}
}

func (h *HostMount) drop() { h.Close() }

// Close ends the handle. What is still mounted goes from view at once, and from the
// process when nobody has anything in it open any more.
func (h *HostMount) Close() error {
	h.lock.Lock()
	defer h.lock.Unlock()
	C.tane_host_mount_close(h.handle)
	h.handle = nil
	runtime.SetFinalizer(h, nil)
	return nil
}
