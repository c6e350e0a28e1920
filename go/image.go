// SPDX-License-Identifier: GPL-2.0-only

package tane

/*
#include <stdint.h>
#include <stdlib.h>
#include <tane.h>

extern int taneGoInterrupted(uintptr_t number);
extern void taneGoNotice(uintptr_t number, char *text, size_t length);
*/
import "C"

import (
	"context"
	"errors"
	"runtime"
	"runtime/cgo"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// Options say how an image is opened, by the same fields as in every other language, and
// the process that serves it. The zero value is the default.
type Options struct {
	// Write lets the image be changed. Without it no byte of it changes.
	Write bool
	// Format is the container: "raw", "qcow2", "vmdk", …; "": told by the content.
	Format string
	// Overlay is a qcow2 file that gets what is written, in the image's stead;
	// ":memory:" keeps that in memory and forgets it.
	Overlay string
	// Trust lists files and directories that the image may name as its parts,
	// beside those in its own directory.
	Trust []string
	// With lists further images of the same machine, or the one with its hashes.
	With []string
	// Lower lists images below this one, the topmost first, each as IMAGE or
	// IMAGE@SELECTOR: the files of all are seen as one, by overlayfs, for reading.
	Lower []string
	// Secrets are passphrases and keys of LUKS and BitLocker volumes, and of images
	// that are encrypted as a whole.
	Secrets [][]byte
	// Verity is the root hash, in hexadecimal digits, of what dm-verity is to check; with
	// ",offset=BYTES" if the hashes are behind the data.
	Verity string
	// SectorSize is that of the disk, in bytes, if it is not 512.
	SectorSize uint32
	// Notice, if it is not nil, is told sentences for people about what takes long or
	// room, or what nobody sees to (an export of an NBD server has no locks), while the
	// image is opened. A panic of it is one of what opens the image.
	Notice func(text string)
	// Kernel is what Open boots.
	Kernel KernelOptions
	// NoJail has Open run Linux in this process, with all rights of it, rather than
	// in a process of its own, in a jail. Direct I/O needs that.
	NoJail bool
	// MemoryLimit is the most private memory of the jailed process, in bytes, beside
	// the kernel's memory; 4 GiB if 0.
	MemoryLimit uint64
	// TimeLimit ends the jailed process, and what was not synced is lost; 0: never.
	TimeLimit time.Duration
	// Context ends calls that wait for the jailed process when it is done: they
	// return its error. What was asked for may still be done. nil: they wait as long
	// as that process lives.
	Context context.Context
}

// Image is a disk image that a kernel has.
type Image struct {
	// kernel is the one that serves it; owned by it, if it is in a worker.
	handle *C.struct_tane_image
	kernel *Kernel
	// context is the number of Options.Context, or 0.
	context uintptr
}

// OpenImage gives the kernel an image; options may be nil. Both are in this process,
// in no jail. IMAGE@SELECTOR says what Mount("") mounts, and OUTER:/IMAGE is an image that
// is a file in another one, which gets a kernel of its own.
func (k *Kernel) OpenImage(path string, options *Options) (*Image, error) {
	return openImage(k, path, options)
}

// openImage opens it in a worker, if there is no kernel.
func openImage(k *Kernel, path string, options *Options) (*Image, error) {
	if options == nil {
		options = &Options{}
	}
	var memory arena
	defer memory.free()
	given := (*C.struct_tane_image_options)(memory.get(C.sizeof_struct_tane_image_options))
	given.size = C.sizeof_struct_tane_image_options
	if options.Write {
		given.flags = C.TANE_IMAGE_WRITE
	}
	given.format = memory.text(options.Format)
	given.overlay = memory.text(options.Overlay)
	given.trust = memory.list(options.Trust)
	given.with = memory.list(options.With)
	given.lower = memory.list(options.Lower)
	if n := len(options.Secrets); n > 0 {
		secrets := memory.get(C.sizeof_struct_tane_secret * C.size_t(n))
		for i, secret := range options.Secrets {
			at := (*C.struct_tane_secret)(unsafe.Add(secrets, i*C.sizeof_struct_tane_secret))
			at.data, at.len = memory.bytes(secret), C.size_t(len(secret))
		}
		given.secrets = (*C.struct_tane_secret)(secrets)
		given.secret_count = C.size_t(n)
	}
	given.verity = memory.text(options.Verity)
	given.sector_size = C.uint32_t(options.SectorSize)
	told := &told{notice: options.Notice}
	if options.Notice != nil {
		handle := cgo.NewHandle(told)
		defer handle.Delete()
		given.notice = (*[0]byte)(C.taneGoNotice)
		// A number, which Go would not have in a pointer.
		*(*uintptr)(unsafe.Pointer(&given.notice_arg)) = uintptr(handle)
	}
	var serves *C.struct_tane_kernel
	if k != nil {
		serves = k.handle
	} else {
		given.worker = worker(&memory, options)
	}
	name := C.CString(path)
	defer free(name)
	image := &Image{kernel: k}
	if k == nil && options.Context != nil {
		image.context = register(options.Context)
		given.worker.interrupted = (*[0]byte)(C.taneGoInterrupted)
		// A number, which Go would not have in a pointer.
		*(*uintptr)(unsafe.Pointer(&given.worker.interrupted_arg)) = image.context
	}
	err := explained(func() C.int {
		return C.tane_image_open(serves, name, given, &image.handle)
	})
	if err == nil && k == nil {
		image.kernel = &Kernel{}
		err = explained(func() C.int {
			return C.tane_image_kernel(image.handle, &image.kernel.handle)
		})
	}
	if err != nil || told.panicked != nil {
		defer forget(image.context)
		C.tane_image_close(image.handle)
		if told.panicked != nil {
			panic(told.panicked)
		}
		return nil, givenUp(image.context, err)
	}
	return image, nil
}

// worker is how the process that serves an image is started.
func worker(memory *arena, options *Options) *C.struct_tane_worker_options {
	size := C.size_t(C.sizeof_struct_tane_worker_options)
	given := (*C.struct_tane_worker_options)(memory.get(size))
	given.size = size
	given.image = memory.text(options.Kernel.Image)
	given.cmdline = memory.text(options.Kernel.CommandLine)
	given.memory = C.uint64_t(options.Kernel.Memory)
	given.cpus = C.uint32_t(options.Kernel.CPUs)
	given.memory_limit = C.uint64_t(options.MemoryLimit)
	if options.TimeLimit > 0 {
		// Not 0, which is no limit.
		given.milliseconds = C.uint64_t((options.TimeLimit + time.Millisecond - 1).Milliseconds())
	}
	return given
}

// Worker is the id of the jailed process that serves it; 0: this process does.
func (i *Image) Worker() int { return int(C.tane_image_worker(i.handle)) }

// Mount mounts the file system that selector means, as behind the "@" of an
// address; with "" what the image's name said, else the only one. When several fit, the error lists them.
func (i *Image) Mount(selector string) (*FS, error) {
	var which *C.char
	if selector != "" {
		which = C.CString(selector)
		defer free(which)
	}
	fsys := &FS{mount: &mount{kernel: i.kernel, context: i.context}}
	err := explained(func() C.int {
		return C.tane_image_mount(i.handle, which, nil, &fsys.mount.handle)
	})
	if err != nil {
		return nil, givenUp(i.context, err)
	}
	runtime.SetFinalizer(fsys.mount, (*mount).drop)
	return fsys, nil
}

// Close ends the handle; the image stays open as long as an FS of it.
func (i *Image) Close() error {
	C.tane_image_close(i.handle)
	i.handle = nil
	return nil
}

// Open opens what an address IMAGE or IMAGE@SELECTOR names, with a kernel of its
// own, which [FS.Close] ends; options may be nil. That kernel runs in a process of its
// own, in a jail: code that a hostile image gets to run there can open no file, connect
// to nothing and start no program. [Options.NoJail] has it in this process.
func Open(address string, options *Options) (*FS, error) {
	if options == nil {
		options = &Options{}
	}
	if strings.ContainsRune(address, 0) {
		return nil, &Error{syscall.EINVAL, "an address has no NUL"}
	}
	var kernel *Kernel
	var err error
	if options.NoJail {
		if kernel, err = Boot(&options.Kernel); err != nil {
			return nil, err
		}
	}
	image, err := openImage(kernel, address, options)
	if err != nil {
		if kernel != nil {
			kernel.Close()
		}
		return nil, err
	}
	defer image.Close()
	fsys, err := image.Mount("")
	if err != nil {
		image.kernel.Close()
		forget(image.context)
		return nil, err
	}
	fsys.mount.owned = true
	return fsys, nil
}

// arena is memory of C's that is freed at once: what a structure points to must
// not be Go's.
type arena struct{ all []unsafe.Pointer }

func (a *arena) get(size C.size_t) unsafe.Pointer {
	at := C.calloc(1, size)
	if at == nil {
		panic(errors.New("tane: no memory"))
	}
	a.all = append(a.all, at)
	return at
}

func (a *arena) text(text string) *C.char {
	if text == "" {
		return nil
	}
	at := C.CString(text)
	a.all = append(a.all, unsafe.Pointer(at))
	return at
}

func (a *arena) bytes(bytes []byte) unsafe.Pointer {
	at := C.CBytes(bytes)
	a.all = append(a.all, at)
	return at
}

// list ends with a NULL.
func (a *arena) list(texts []string) **C.char {
	if len(texts) == 0 {
		return nil
	}
	const word = C.size_t(unsafe.Sizeof(uintptr(0)))
	list := (**C.char)(a.get(word * C.size_t(len(texts)+1)))
	copy(unsafe.Slice(list, len(texts)), func() (all []*C.char) {
		for _, text := range texts {
			// An empty one is no end.
			at := C.CString(text)
			a.all = append(a.all, unsafe.Pointer(at))
			all = append(all, at)
		}
		return
	}())
	return list
}

func (a *arena) free() {
	for _, at := range a.all {
		C.free(at)
	}
}
