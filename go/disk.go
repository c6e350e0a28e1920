// SPDX-License-Identifier: GPL-2.0-only

package tane

/*
#include <stdlib.h>
#include <tane.h>
*/
import "C"

import (
	"io"
	"runtime"
	"syscall"
	"unsafe"
)

// Disk is a disk of memory that a kernel in this process has. It is an
// [io.ReaderAt] and an [io.WriterAt] of its bytes.
type Disk struct {
	handle *C.struct_tane_disk
	kernel *Kernel
}

// AddRAMDisk gives the kernel a disk of so many bytes, all zero. It takes memory where
// it is written first and may be larger than memory: what has no room is an I/O error.
// The memory is given back by [Disk.Close].
func (k *Kernel) AddRAMDisk(size uint64) (*Disk, error) {
	disk := &Disk{kernel: k}
	err := explained(func() C.int {
		return C.tane_disk_ram(k.handle, C.uint64_t(size), nil, &disk.handle)
	})
	if err != nil {
		return nil, err
	}
	return disk, nil
}

// Device is its name inside the kernel, such as /dev/vda.
func (d *Disk) Device() string { return C.GoString(C.tane_disk_device(d.handle)) }

// ReadAt reads what is on it, for what is not mounted.
func (d *Disk) ReadAt(p []byte, off int64) (int, error) {
	n, err := d.transfer(syscall.SYS_PREAD64, p, off)
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

// WriteAt puts an image there, or what a mkfs made, before it is mounted.
func (d *Disk) WriteAt(p []byte, off int64) (int, error) {
	n, err := d.transfer(syscall.SYS_PWRITE64, p, off)
	if err == nil && n < len(p) {
		err = syscall.ENOSPC
	}
	return n, err
}

func (d *Disk) transfer(call int64, p []byte, off int64) (int, error) {
	const most = 1 << 20
	// What the kernel is given the address of must not be Go's.
	buffer := C.malloc(most)
	defer C.free(buffer)
	system := func(call int64, a, b, c, e uint64) (int, error) {
		result := C.tane_syscall(d.kernel.handle, C.int64_t(call), C.uint64_t(a), C.uint64_t(b),
			C.uint64_t(c), C.uint64_t(e), 0, 0)
		if result < 0 {
			return 0, syscall.Errno(-result)
		}
		return int(result), nil
	}
	device := C.tane_disk_device(d.handle)
	fd, err := system(syscall.SYS_OPEN, uint64(uintptr(unsafe.Pointer(device))),
		syscall.O_RDWR|syscall.O_CLOEXEC, 0, 0)
	if err != nil {
		return 0, err
	}
	defer system(syscall.SYS_CLOSE, uint64(fd), 0, 0, 0)
	done := 0
	for done < len(p) {
		part := p[done:]
		if len(part) > most {
			part = part[:most]
		}
		memory := unsafe.Slice((*byte)(buffer), len(part))
		if call == syscall.SYS_PWRITE64 {
			copy(memory, part)
		}
		n, err := system(call, uint64(fd), uint64(uintptr(buffer)), uint64(len(part)),
			uint64(off)+uint64(done))
		if err != nil {
			return done, err
		}
		if call == syscall.SYS_PREAD64 {
			copy(part, memory[:n])
		}
		done += n
		if n < len(part) {
			break
		}
	}
	if call == syscall.SYS_PWRITE64 {
		_, err = system(syscall.SYS_FSYNC, uint64(fd), 0, 0, 0)
	}
	return done, err
}

// Mount mounts the file system on it; fstype may be "": told by the content.
func (d *Disk) Mount(fstype string) (*FS, error) {
	var memory arena
	defer memory.free()
	how := (*C.struct_tane_mount_options)(memory.get(C.sizeof_struct_tane_mount_options))
	how.size = C.sizeof_struct_tane_mount_options
	how._type = memory.text(fstype)
	fsys := &FS{mount: &mount{kernel: d.kernel}}
	err := explained(func() C.int {
		return C.tane_mount(d.kernel.handle, C.tane_disk_device(d.handle), how, &fsys.mount.handle)
	})
	if err != nil {
		return nil, err
	}
	runtime.SetFinalizer(fsys.mount, (*mount).drop)
	return fsys, nil
}

// Close gives the memory back, when nothing of it is mounted any more.
func (d *Disk) Close() error {
	C.tane_disk_close(d.handle)
	d.handle = nil
	return nil
}
