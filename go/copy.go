// SPDX-License-Identifier: GPL-2.0-only

package tane

/*
#include <stdint.h>
#include <stdlib.h>
#include <tane.h>

extern int taneGoProgress(uintptr_t copy, uint64_t files, uint64_t bytes,
			  uint64_t total_files, uint64_t total_bytes);
extern void taneGoLost(uintptr_t copy, char *path, char *what, int error);
extern void taneGoFailed(uintptr_t copy, char *path, char *why, int error);
*/
import "C"

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"runtime/cgo"
	"strings"
	"syscall"
	"unsafe"
)

// CopyOptions say how a tree is copied. The zero value, or nil, is the default.
type CopyOptions struct {
	// Strict ends the copy at the first thing that cannot be kept, with its error.
	Strict bool
	// NoClobber leaves what is there already as it is.
	NoClobber bool
	// Devices makes device nodes on the host, which takes root; else they are losses.
	Devices bool
	// Progress is called now and then, by one goroutine at a time but not always by the
	// same. An error that it returns stops the copy after the file at hand, and is what
	// the copy returns.
	Progress func(Progress) error
	// Context stops the copy likewise when it is done. nil: nothing does.
	Context context.Context
}

// Progress is what is done of a copy, and what there is to do: 0 while that is counted.
type Progress struct {
	Files, Bytes           uint64
	TotalFiles, TotalBytes uint64
}

// Loss is something that a file which was copied does not have now: its owner, an
// attribute, what made it a hard link. Path is below what was copied, "" being that.
type Loss struct {
	Path, What string
	Err        error
}

func (l Loss) String() string { return fmt.Sprintf("%s: %s not kept: %v", l.Path, l.What, l.Err) }

// Failure is a file that was not copied.
type Failure struct {
	Path, Why string
	Err       error
}

// Copied is what a copy has done.
type Copied struct {
	Files, Directories uint64
	// Links are further names of files.
	Links uint64
	// Others are symbolic links, devices and so on.
	Others uint64
	// Bytes of data; holes have none.
	Bytes uint64
	// ByHost are the bytes that the host copied by itself.
	ByHost uint64
	// Skipped are files that were there already, with NoClobber.
	Skipped uint64
	// Losses are what could not be kept of files that were copied.
	Losses []Loss
	// Failures are the files that were not.
	Failures []Failure
}

// CopyOut copies a file or a tree to the host, under the name to, with all that belongs
// to it: owners, modes, times, attributes, ACLs, flags, holes, hard links. The directory it
// goes into must be there. A directory that is there is added to, a file is replaced once
// its copy is complete. Symbolic links are copied themselves, and those below to are not
// followed.
//
// What is lost on the way is no error unless Strict is set: look at Copied.Losses. The
// error is that of the first file that was not copied; others were tried, unless nothing
// more could be written. Copied is there in any case.
//
// The files of the host are read and written by this process.
func (f *FS) CopyOut(name, to string, options *CopyOptions) (*Copied, error) {
	return f.copyHost("copyout", name, to, options,
		func(mount *C.struct_tane_mount, name, host *C.char, given *C.struct_tane_copy_options, copied *C.struct_tane_copied) C.int {
			return C.tane_copy_out(mount, name, host, given, copied)
		})
}

// CopyIn copies a file or a tree of the host's into the image, and writes it back. See
// [FS.CopyOut].
func (f *FS) CopyIn(source, name string, options *CopyOptions) (*Copied, error) {
	return f.copyHost("copyin", name, source, options,
		func(mount *C.struct_tane_mount, name, host *C.char, given *C.struct_tane_copy_options, copied *C.struct_tane_copied) C.int {
			return C.tane_copy_in(mount, host, name, given, copied)
		})
}

// CopyTo copies a file or a tree into another file system, or elsewhere in the same one.
// See [FS.CopyOut].
func (f *FS) CopyTo(name string, to *FS, toName string, options *CopyOptions) (*Copied, error) {
	const op = "copyto"
	if err := check(op, name, toName); err != nil {
		return &Copied{}, err
	}
	from, into := C.CString(path.Join(f.below, name)), C.CString(path.Join(to.below, toName))
	defer free(from)
	defer free(into)
	unlock := lockBoth(f.mount, to.mount)
	defer unlock()
	if f.mount.handle == nil || to.mount.handle == nil {
		return &Copied{}, &fs.PathError{Op: op, Path: name, Err: fs.ErrClosed}
	}
	return copying(op, name, options, func(given *C.struct_tane_copy_options, copied *C.struct_tane_copied) C.int {
		return C.tane_copy_across(f.mount.handle, from, to.mount.handle, into, given, copied)
	})
}

// copyHost copies between this file system and the host.
func (f *FS) copyHost(op, name, host string, options *CopyOptions,
	call func(mount *C.struct_tane_mount, name, host *C.char, given *C.struct_tane_copy_options, copied *C.struct_tane_copied) C.int,
) (*Copied, error) {
	if err := check(op, name); err != nil {
		return &Copied{}, err
	}
	if strings.ContainsRune(host, 0) {
		return &Copied{}, &fs.PathError{Op: op, Path: host, Err: fs.ErrInvalid}
	}
	inside, outside := C.CString(path.Join(f.below, name)), C.CString(host)
	defer free(inside)
	defer free(outside)
	f.mount.RLock()
	defer f.mount.RUnlock()
	if f.mount.handle == nil {
		return &Copied{}, &fs.PathError{Op: op, Path: name, Err: fs.ErrClosed}
	}
	return copying(op, name, options, func(given *C.struct_tane_copy_options, copied *C.struct_tane_copied) C.int {
		return call(f.mount.handle, inside, outside, given, copied)
	})
}

func check(op string, names ...string) error {
	for _, name := range names {
		if !valid(name) {
			return &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
		}
	}
	return nil
}

// lockBoth locks two mounts for reading, in one order for all: a Close that waits for one
// of them lets nobody in before it.
func lockBoth(one, other *mount) func() {
	if one == other {
		one.RLock()
		return one.RUnlock
	}
	first, second := one, other
	if uintptr(unsafe.Pointer(first)) > uintptr(unsafe.Pointer(second)) {
		first, second = second, first
	}
	first.RLock()
	second.RLock()
	return func() {
		second.RUnlock()
		first.RUnlock()
	}
}

// underway is a copy that C is making.
type underway struct {
	options  *CopyOptions
	losses   []Loss
	failures []Failure
	// stopped is why it was.
	stopped error
	// panicked is what Progress panicked with, which must not go through C.
	panicked any
}

// copying makes a copy by a call, and Go's values of what it tells.
func copying(op, name string, options *CopyOptions, call func(*C.struct_tane_copy_options, *C.struct_tane_copied) C.int) (*Copied, error) {
	if options == nil {
		options = &CopyOptions{}
	}
	under := &underway{options: options}
	handle := cgo.NewHandle(under)
	defer handle.Delete()
	var memory arena
	defer memory.free()
	given := (*C.struct_tane_copy_options)(memory.get(C.sizeof_struct_tane_copy_options))
	given.size = C.sizeof_struct_tane_copy_options
	for flag, wanted := range map[C.uint32_t]bool{
		C.TANE_COPY_STRICT:     options.Strict,
		C.TANE_COPY_NO_CLOBBER: options.NoClobber,
		C.TANE_COPY_DEVICES:    options.Devices,
	} {
		if wanted {
			given.flags |= flag
		}
	}
	if options.Progress != nil || options.Context != nil {
		given.progress = (*[0]byte)(C.taneGoProgress)
	}
	given.loss = (*[0]byte)(C.taneGoLost)
	given.failure = (*[0]byte)(C.taneGoFailed)
	// A number, which Go would not have in a pointer.
	*(*uintptr)(unsafe.Pointer(&given.arg)) = uintptr(handle)
	copied := (*C.struct_tane_copied)(memory.get(C.sizeof_struct_tane_copied))
	copied.size = C.sizeof_struct_tane_copied
	err := explained(func() C.int { return call(given, copied) })
	runtime.KeepAlive(under)
	if under.panicked != nil {
		panic(under.panicked)
	}
	if under.stopped != nil {
		err = under.stopped
	} else if err != nil {
		err = &fs.PathError{Op: op, Path: name, Err: err}
	}
	return &Copied{
		Files:       uint64(copied.files),
		Directories: uint64(copied.directories),
		Links:       uint64(copied.links),
		Others:      uint64(copied.others),
		Bytes:       uint64(copied.bytes),
		ByHost:      uint64(copied.by_host),
		Skipped:     uint64(copied.skipped),
		Losses:      under.losses,
		Failures:    under.failures,
	}, err
}

func copyOf(number C.uintptr_t) *underway { return cgo.Handle(number).Value().(*underway) }

// taneGoProgress is what the library tells on the way.
//
//export taneGoProgress
func taneGoProgress(number C.uintptr_t, files, bytes, totalFiles, totalBytes C.uint64_t) (stop C.int) {
	under := copyOf(number)
	defer func() {
		if panicked := recover(); panicked != nil {
			under.panicked, stop = panicked, 1
		}
	}()
	if under.panicked != nil || under.stopped != nil {
		return 1
	}
	if ctx := under.options.Context; ctx != nil {
		under.stopped = ctx.Err()
	}
	if progress := under.options.Progress; progress != nil && under.stopped == nil {
		under.stopped = progress(Progress{uint64(files), uint64(bytes), uint64(totalFiles), uint64(totalBytes)})
	}
	if under.stopped != nil {
		return 1
	}
	return 0
}

// taneGoLost is told what a copied file lacks.
//
//export taneGoLost
func taneGoLost(number C.uintptr_t, path, what *C.char, errno C.int) {
	under := copyOf(number)
	under.losses = append(under.losses, Loss{C.GoString(path), C.GoString(what), syscall.Errno(errno)})
}

// taneGoFailed is told of a file that was not copied.
//
//export taneGoFailed
func taneGoFailed(number C.uintptr_t, path, why *C.char, errno C.int) {
	under := copyOf(number)
	under.failures = append(under.failures, Failure{C.GoString(path), C.GoString(why), syscall.Errno(errno)})
}
