// SPDX-License-Identifier: GPL-2.0-only

package tane

/*
#include <stdlib.h>
#include <tane.h>
*/
import "C"

// Kernel is Linux, running inside this process if [Boot] started it; else that of a
// jailed image.
type Kernel struct {
	handle *C.struct_tane_kernel
}

// KernelOptions are what a kernel is booted with. The zero value is the default.
type KernelOptions struct {
	// Image is the kernel image; found as the package's documentation says if "".
	Image string
	// Memory in bytes; 256 MiB if 0. Taken from the host as it is touched.
	Memory uint64
	// CPUs is how many goroutines can be inside at once; 1 if 0.
	CPUs int
	// CommandLine has words for the kernel command line.
	CommandLine string
}

// Boot starts a kernel, which takes some milliseconds; options may be nil.
func Boot(options *KernelOptions) (*Kernel, error) {
	if options == nil {
		options = &KernelOptions{}
	}
	var given C.struct_tane_kernel_options
	given.size = C.sizeof_struct_tane_kernel_options
	given.memory = C.uint64_t(options.Memory)
	given.cpus = C.uint32_t(options.CPUs)
	if options.Image != "" {
		given.image = C.CString(options.Image)
		defer free(given.image)
	}
	if options.CommandLine != "" {
		given.cmdline = C.CString(options.CommandLine)
		defer free(given.cmdline)
	}
	kernel := &Kernel{}
	err := explained(func() C.int { return C.tane_kernel_boot(&given, &kernel.handle) })
	if err != nil {
		return nil, err
	}
	return kernel, nil
}

// IsAlive is false once the kernel has panicked or was closed.
func (k *Kernel) IsAlive() bool { return C.tane_kernel_is_alive(k.handle) == 1 }

// Trim gives memory back to the host: what is cached of files and names and could be read
// again is forgotten, and all that is free becomes the host's. What is written and not yet on
// its disk stays: sync before to have more go. Calls of other goroutines go on. What Linux
// frees goes back within some seconds without this, but for small pieces.
func (k *Kernel) Trim() error {
	return explained(func() C.int { return C.tane_kernel_trim(k.handle) })
}

// Log is what dmesg(1) prints.
func (k *Kernel) Log() string {
	for size := 1 << 16; ; size *= 2 {
		text := make([]C.char, size)
		if n := C.tane_kernel_dmesg(k.handle, &text[0], C.size_t(size)); int(n) < size {
			return C.GoString(&text[0])
		}
	}
}

// Close ends the handle; the kernel ends with the last image and file system of
// it. Closing twice does no harm.
func (k *Kernel) Close() error {
	C.tane_kernel_close(k.handle)
	k.handle = nil
	return nil
}
