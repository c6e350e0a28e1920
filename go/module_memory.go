// SPDX-License-Identifier: GPL-2.0-only

package tane

// #include <tane.h>
import "C"

import (
	"fmt"
	"io"
	"syscall"
	"unsafe"
)

// Memory is an instance's, as its imports see it. It is good until they return.
type Memory struct{ handle *C.struct_tane_instance }

var (
	_ io.ReaderAt = (*Memory)(nil)
	_ io.WriterAt = (*Memory)(nil)
	_ io.ReaderAt = (*Instance)(nil)
	_ io.WriterAt = (*Instance)(nil)
)

// ReadAt copies out of memory. Offsets are what pointers are as integers. All of p is
// read, or nothing: EFAULT if the module itself could not read it.
func (m *Memory) ReadAt(p []byte, off int64) (int, error) {
	return m.copied(p, off, func(to unsafe.Pointer) C.int {
		return C.tane_instance_read(m.handle, C.uint64_t(off), to, C.size_t(len(p)))
	})
}

// WriteAt copies into memory: all of p, or nothing, and EFAULT, if the module itself could
// not write it.
func (m *Memory) WriteAt(p []byte, off int64) (int, error) {
	return m.copied(p, off, func(from unsafe.Pointer) C.int {
		return C.tane_instance_write(m.handle, C.uint64_t(off), from, C.size_t(len(p)))
	})
}

func (m *Memory) copied(p []byte, off int64, copies func(unsafe.Pointer) C.int) (int, error) {
	if m.handle == nil {
		return 0, errClosed
	}
	if len(p) == 0 {
		return 0, nil
	}
	if result := copies(unsafe.Pointer(&p[0])); result < 0 {
		return 0, fmt.Errorf("tane: %d bytes at %#x of a module: %w", len(p), off, syscall.Errno(-result))
	}
	return len(p), nil
}

// Heap is where the heap lies, which nobody uses in a module without malloc.
func (m *Memory) Heap() (start, end int64) {
	var from, to C.uint64_t
	if m.handle != nil {
		C.tane_instance_heap(m.handle, &from, &to)
	}
	return int64(from), int64(to)
}

// ReadAt is [Memory.ReadAt].
func (i *Instance) ReadAt(p []byte, off int64) (n int, err error) {
	closed := i.do(func(own *instance) { n, err = (&Memory{own.handle}).ReadAt(p, off) })
	if closed != nil {
		return 0, closed
	}
	return n, err
}

// WriteAt is [Memory.WriteAt].
func (i *Instance) WriteAt(p []byte, off int64) (n int, err error) {
	closed := i.do(func(own *instance) { n, err = (&Memory{own.handle}).WriteAt(p, off) })
	if closed != nil {
		return 0, closed
	}
	return n, err
}

// Heap is [Memory.Heap]; 0 and 0 if the instance is closed.
func (i *Instance) Heap() (start, end int64) {
	_ = i.do(func(own *instance) { start, end = (&Memory{own.handle}).Heap() })
	return start, end
}
