// SPDX-License-Identifier: GPL-2.0-only

package tane

/*
#include <stdlib.h>
#include <tane.h>
*/
import "C"

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// Direct I/O moves bytes between a disk and memory without a page cache in
// between, and disks want that memory aligned, mostly to 512 or 4096 bytes. A Go
// slice has no such alignment: make promises that of the element type, 1 for bytes,
// and where a larger slice starts is up to the allocator's size classes, which are
// not powers of two and change between versions. A slice that happens to be aligned
// today is not one that is. (What Go does promise is that a slice on the heap stays
// where it is, so that aligning by hand, as AlignedBytes does, lasts; one on a stack
// moves with the stack.)

// AlignedBytes makes a slice whose first byte lies at a multiple of align, a power
// of two: for O_DIRECT on files of the host. [BufferFor] asks what the file wants. For
// files inside an image use [FS.NewBuffer].
func AlignedBytes(size, align int) []byte {
	if align <= 0 || align&(align-1) != 0 {
		panic(fmt.Sprintf("tane: alignment %d is no power of two", align))
	}
	// Grown by append so that the compiler cannot put it on a stack.
	room := append([]byte(nil), make([]byte, size+align)...)
	at := uintptr(unsafe.Pointer(&room[0]))
	skip := int(-at & uintptr(align-1))
	return room[skip : skip+size : skip+size]
}

// BufferFor makes a slice for direct I/O on a file of the host, opened with
// syscall.O_DIRECT: aligned as [HostAlignment] says, and size bytes long or a little
// longer, as lengths have to be multiples too. Where the host does not say what it
// wants, that is a page: no disk that Linux knows wants more.
func BufferFor(file *os.File, size int) ([]byte, error) {
	memory, offset, err := HostAlignment(file)
	if errors.Is(err, syscall.EOPNOTSUPP) {
		memory, offset = os.Getpagesize(), os.Getpagesize()
	} else if err != nil {
		return nil, err
	}
	if offset == 0 {
		return nil, &fs.PathError{Op: "direct I/O", Path: file.Name(), Err: syscall.EINVAL}
	}
	return AlignedBytes((size+offset-1)/offset*offset, memory), nil
}

// HostAlignment is what the host's statx(2) says of direct I/O on a file of its own,
// with STATX_DIOALIGN of Linux 6.1 and newer: as [File.DirectAlignment] says it of
// a file inside an image. syscall.EOPNOTSUPP if the host or its file system does not
// know.
func HostAlignment(file *os.File) (memory, offset int, err error) {
	conn, err := file.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	var answer statxAnswer
	var errno syscall.Errno
	err = conn.Control(func(fd uintptr) {
		var empty [1]byte
		_, _, errno = syscall.Syscall6(sysStatx, fd, uintptr(unsafe.Pointer(&empty)),
			atEmptyPath, statxDioalign, uintptr(unsafe.Pointer(&answer)), 0)
	})
	if err == nil && errno != 0 {
		err = &fs.PathError{Op: "statx", Path: file.Name(), Err: errno}
	}
	if err != nil {
		return 0, 0, err
	}
	return answer.alignment(file.Name())
}

// Of statx(2), which Go's syscall package does not have.
const (
	atEmptyPath   = 0x1000
	statxDioalign = 0x2000
	sysStatx      = 332
)

// struct statx: stx_mask at 0, stx_dio_mem_align at 152, stx_dio_offset_align.
type statxAnswer [256]byte

func (a *statxAnswer) alignment(name string) (memory, offset int, err error) {
	word := func(at int) int { return int(*(*uint32)(unsafe.Pointer(&a[at]))) }
	if word(0)&statxDioalign == 0 {
		return 0, 0, &fs.PathError{Op: "statx", Path: name, Err: syscall.EOPNOTSUPP}
	}
	return word(152), word(156), nil
}

// DirectAlignment is what statx(2) says of direct I/O on a file: the multiple that
// memory must start at, and that offsets and lengths must be of, in bytes. Both are
// 0 if the file takes no direct I/O; syscall.EOPNOTSUPP if Linux does not know, or
// runs in a jail ([Options.NoJail]).
func (f *File) DirectAlignment() (memory, offset int, err error) {
	answer := (*statxAnswer)(C.calloc(1, C.size_t(unsafe.Sizeof(statxAnswer{}))))
	defer C.free(unsafe.Pointer(answer))
	empty := C.CString("")
	defer free(empty)
	_, err = f.moved("statx", func(file *C.struct_tane_file) C.int64_t {
		return C.tane_syscall(f.fs.mount.kernel.handle, sysStatx,
			C.uint64_t(C.tane_fd(file)), C.uint64_t(uintptr(unsafe.Pointer(empty))),
			atEmptyPath, statxDioalign, C.uint64_t(uintptr(unsafe.Pointer(answer))), 0)
	})
	if err != nil {
		return 0, 0, err
	}
	return answer.alignment(f.name)
}

// Buffer is memory that consists of pages of the kernel's: the only one that a file
// opened with O_DIRECT reads into and writes from, and aligned to 4096 bytes, which
// is enough for every file system.
type Buffer struct {
	handle *C.struct_tane_buffer
	bytes  []byte
}

// NewBuffer makes a buffer of zeroes, to be freed. It counts against the memory of
// the kernel, which must be in this process ([Options.NoJail]).
func (f *FS) NewBuffer(size int) (*Buffer, error) {
	f.mount.RLock()
	defer f.mount.RUnlock()
	if f.mount.handle == nil {
		return nil, fs.ErrClosed
	}
	buffer := &Buffer{}
	err := explained(func() C.int {
		return C.tane_buffer_alloc(f.mount.kernel.handle, C.size_t(size), &buffer.handle)
	})
	if err != nil {
		return nil, err
	}
	data := (*byte)(C.tane_buffer_data(buffer.handle))
	buffer.bytes = unsafe.Slice(data, size)
	runtime.SetFinalizer(buffer, (*Buffer).Free)
	return buffer, nil
}

// Bytes is the memory, until Free.
func (b *Buffer) Bytes() []byte { return b.bytes }

// Free gives it back. Slices of it must not be used any more.
func (b *Buffer) Free() {
	C.tane_buffer_free(b.handle)
	b.handle, b.bytes = nil, nil
	runtime.SetFinalizer(b, nil)
}
