// SPDX-License-Identifier: GPL-2.0-only

package tane

/*
#include <stdint.h>
#include <stdlib.h>
#include <tane.h>

extern int64_t taneGoImport(uintptr_t number, struct tane_instance *instance, int64_t *args);
*/
import "C"

import (
	"errors"
	"fmt"
	"path"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// Module is machine code that `tane build` made and that was checked: docs/checked.md says
// what is then proven. Any goroutine may make instances of it.
type Module struct {
	handle *C.struct_tane_module
}

// NewModule checks a module. An [Error] with ENOEXEC says which rule it breaks, where, and
// the remedy.
func NewModule(data []byte) (*Module, error) {
	module := &Module{}
	at := C.CBytes(data)
	defer C.free(at)
	err := explained(func() C.int {
		return C.tane_module_open(at, C.size_t(len(data)), &module.handle)
	})
	if err != nil {
		return nil, err
	}
	runtime.SetFinalizer(module, func(m *Module) { C.tane_module_close(m.handle) })
	return module, nil
}

// Exports are the functions that it has to be called.
func (m *Module) Exports() (names []string) {
	defer runtime.KeepAlive(m)
	for name := C.tane_module_export(m.handle, 0); name != nil; {
		names = append(names, C.GoString(name))
		name = C.tane_module_export(m.handle, C.uint32_t(len(names)))
	}
	return names
}

// Imports are the functions and system calls that it must be given.
func (m *Module) Imports() (names []string) {
	defer runtime.KeepAlive(m)
	for name := C.tane_module_import(m.handle, 0); name != nil; {
		names = append(names, C.GoString(name))
		name = C.tane_module_import(m.handle, C.uint32_t(len(names)))
	}
	return names
}

// Import is a function that a module may call. It gets the first six arguments, and the
// module what it returns; an error ends the call of the module, which returns it. It uses
// the memory that it is given, and no method of the instance, which would wait for it.
type Import func(memory *Memory, args [6]int64) (int64, error)

// InstanceOptions are what an instance is given. The zero value is the default.
type InstanceOptions struct {
	// FS has its files: a file system of a kernel in this process (NoJail), which cannot
	// be closed meanwhile. It is Kernel and Directory in one.
	FS *FS
	// Kernel, of this process, is the one whose system calls it may import.
	Kernel *Kernel
	// Directory of that kernel is its root directory and descriptor 0; "": it makes no
	// calls on files.
	Directory string
	// Calls are names of the system calls that it may import; nil: those that touch no
	// file, and with a directory those on files. Those on sockets need no directory, and
	// are only those that are named.
	Calls []string
	// Imports are functions that it may import, by name.
	Imports map[string]Import
	// Memory is that of its heap and stack, in bytes, taken as touched; 64 MiB if 0.
	Memory uint64
	// TimeLimit is the longest that one call may take; 0: for ever.
	TimeLimit time.Duration
}

// TrapKind says what ended a call.
type TrapKind int

// What ends calls.
const (
	TrapMemory      TrapKind = C.TANE_TRAP_MEMORY      // memory that is not there for it
	TrapStack       TrapKind = C.TANE_TRAP_STACK       // it calls itself too deep
	TrapDivide      TrapKind = C.TANE_TRAP_DIVIDE      // by zero, or the result does not fit
	TrapUnreachable TrapKind = C.TANE_TRAP_UNREACHABLE // it has given up
	TrapCall        TrapKind = C.TANE_TRAP_CALL        // by a pointer to no function
	TrapTime        TrapKind = C.TANE_TRAP_TIME        // its time is over, or Stop was called
	TrapExit        TrapKind = C.TANE_TRAP_EXIT        // it called tane_exit
)

// Trap is the error of a call that was ended. The instance may be called again.
type Trap struct {
	Kind TrapKind
	// Code is what it gave to tane_exit.
	Code int64
	// Function is the exported one that begins there or before; "" if that is not known.
	Function string
	// File and Line are of the source; "" and 0 if that is not known.
	File string
	Line int
	// Text is a sentence for people.
	Text string
}

func (t *Trap) Error() string { return t.Text }

// Instance is a module with memory of its own. Any goroutine may use it: a thread of the
// operating system's is the instance's own, so that a call takes the time of two messages
// between goroutines, and calls wait for each other.
type Instance struct {
	work chan func(*instance)
	// mu is held for reading by who sends work.
	mu     sync.RWMutex
	handle *C.struct_tane_instance
	ended  chan struct{}
}

// instance is what its thread knows.
type instance struct {
	handle *C.struct_tane_instance
	raised error
}

// imported are the functions of instances, by numbers that C may keep.
var (
	imported     sync.Map
	lastImported atomic.Uintptr
)

type importOf struct {
	function Import
	instance *instance
}

//export taneGoImport
func taneGoImport(number C.uintptr_t, handle *C.struct_tane_instance, args *C.int64_t) (result C.int64_t) {
	found, _ := imported.Load(uintptr(number))
	its := found.(importOf)
	// A panic must not run through the module; it goes on where that was called.
	defer func() {
		if cause := recover(); cause != nil {
			its.instance.raised = &panicked{cause}
			C.tane_instance_exit(handle, 0)
		}
	}()
	var six [6]int64
	copy(six[:], unsafe.Slice((*int64)(args), 6))
	memory := &Memory{handle}
	defer func() { memory.handle = nil }()
	value, err := its.function(memory, six)
	if err != nil {
		its.instance.raised = err
		C.tane_instance_exit(handle, 0)
	}
	return C.int64_t(value)
}

type panicked struct{ cause any }

func (p *panicked) Error() string { return fmt.Sprint("panic in an import: ", p.cause) }

// Instance gives the module memory, and what it imports; options may be nil. An [Error] says
// what is missing: ENOSYS it imports what it was not given; EOPNOTSUPP modules need AVX and a
// Linux that lets programs set the GS base, or the kernel is that of a jailed image.
func (m *Module) Instance(options *InstanceOptions) (*Instance, error) {
	if options == nil {
		options = &InstanceOptions{}
	}
	// What the goroutine knows is not the Instance, which would never be collected.
	work, ready, ended := make(chan func(*instance)), make(chan error), make(chan struct{})
	own := &instance{}
	go func() {
		defer close(ended)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		numbers, err := own.start(m, options)
		defer func() {
			for _, number := range numbers {
				imported.Delete(number)
			}
		}()
		ready <- err
		if err != nil {
			return
		}
		for one := range work {
			one(own)
		}
		C.tane_instance_close(own.handle)
	}()
	if err := <-ready; err != nil {
		return nil, err
	}
	made := &Instance{work: work, handle: own.handle, ended: ended}
	runtime.SetFinalizer(made, (*Instance).Close)
	return made, nil
}

func (i *instance) start(m *Module, options *InstanceOptions) ([]uintptr, error) {
	var memory arena
	defer memory.free()
	defer runtime.KeepAlive(m)
	kernel, directory := options.Kernel, options.Directory
	if fsys := options.FS; fsys != nil {
		if kernel != nil || directory != "" {
			return nil, errors.New("tane: an FS has a kernel and a directory")
		}
		fsys.mount.RLock()
		defer fsys.mount.RUnlock()
		if fsys.mount.handle == nil {
			return nil, syscall.EBADF
		}
		kernel = fsys.mount.kernel
		point := C.GoString(C.tane_mount_point(fsys.mount.handle))
		directory = path.Join(point, fsys.below)
	}
	given := (*C.struct_tane_instance_options)(memory.get(C.sizeof_struct_tane_instance_options))
	given.size = C.sizeof_struct_tane_instance_options
	given.memory = C.uint64_t(options.Memory)
	given.milliseconds = C.uint64_t((options.TimeLimit + time.Millisecond - 1) / time.Millisecond)
	if kernel != nil {
		given.kernel = kernel.handle
	}
	given.directory = memory.text(directory)
	if options.Calls != nil {
		// An empty list is one, too.
		given.calls = (**C.char)(memory.get(C.size_t(unsafe.Sizeof(uintptr(0)))))
		if len(options.Calls) > 0 {
			given.calls = memory.list(options.Calls)
		}
	}
	var numbers []uintptr
	if n := len(options.Imports); n > 0 {
		at := (*C.struct_tane_import)(memory.get(C.size_t(n) * C.sizeof_struct_tane_import))
		raw := unsafe.Slice(at, n)
		for name, function := range options.Imports {
			number := lastImported.Add(1)
			imported.Store(number, importOf{function, i})
			one := &raw[len(numbers)]
			one.name = memory.text(name)
			one.function = (*[0]byte)(C.taneGoImport)
			// A number, which Go would not have in a pointer.
			*(*uintptr)(unsafe.Pointer(&one.arg)) = number
			numbers = append(numbers, number)
		}
		given.imports, given.import_count = at, C.size_t(n)
	}
	err := explained(func() C.int { return C.tane_instance_new(m.handle, given, &i.handle) })
	runtime.KeepAlive(kernel)
	return numbers, err
}

// do has its thread do something, and waits. ErrClosed is of an instance that is closed.
func (i *Instance) do(work func(*instance)) error {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if i.handle == nil {
		return errClosed
	}
	done := make(chan struct{})
	i.work <- func(own *instance) {
		defer close(done)
		work(own)
	}
	<-done
	return nil
}

var errClosed = fmt.Errorf("tane: the instance is closed: %w", syscall.EBADF)

// Call calls a function that the module exports, with up to six integers. The result is a
// word of 64 bits, of which only as much counts as the function's type has. Errors are a
// [*Trap], what an import returned, or an [Error]: ENOENT there is no such function; E2BIG
// there are too many arguments.
func (i *Instance) Call(function string, args ...int64) (result int64, err error) {
	var cause *panicked
	closed := i.do(func(own *instance) {
		result, err = own.call(function, args)
	})
	if closed != nil {
		return 0, closed
	}
	if errors.As(err, &cause) {
		panic(cause.cause)
	}
	return result, err
}

func (i *instance) call(function string, args []int64) (int64, error) {
	name := C.CString(function)
	defer free(name)
	// C keeps none of it.
	words := make([]C.int64_t, len(args)+1)
	for n, arg := range args {
		words[n] = C.int64_t(arg)
	}
	var result C.int64_t
	answer := C.tane_instance_call(i.handle, name, &words[0], C.size_t(len(args)), &result)
	err := i.raised
	i.raised = nil
	switch {
	case answer < 0:
		// This goroutine keeps its thread.
		return 0, &Error{Errno: syscall.Errno(-answer), Text: C.GoString(C.tane_error_message())}
	case err != nil:
		return 0, err
	case answer > 0:
		return 0, i.trap(TrapKind(answer), int64(result))
	}
	return int64(result), nil
}

func (i *instance) trap(kind TrapKind, code int64) *Trap {
	trap := &Trap{Kind: kind, Code: code, Text: C.GoString(C.tane_error_message())}
	var place C.struct_tane_place
	place.size = C.sizeof_struct_tane_place
	if C.tane_instance_place(i.handle, &place) == 0 {
		if place.function != nil {
			trap.Function = C.GoString(place.function)
		}
		if place.file != nil {
			trap.File, trap.Line = C.GoString(place.file), int(place.line)
		}
	}
	return trap
}

// Give puts bytes where the stack ends, for as long as the instance lives: where they are,
// which is a pointer to them. ENOSPC: the stack has no room.
func (i *Instance) Give(data []byte) (offset int64, err error) {
	closed := i.do(func(own *instance) {
		at := C.CBytes(data)
		defer C.free(at)
		var to C.uint64_t
		result := C.tane_instance_give(own.handle, at, C.size_t(len(data)), &to)
		if result < 0 {
			err = &Error{Errno: syscall.Errno(-result), Text: C.GoString(C.tane_error_message())}
		}
		offset = int64(to)
	})
	if closed != nil {
		return 0, closed
	}
	return offset, err
}

// Stop has the call under way, and all later ones, end with [TrapTime]. EINVAL: the
// instance was made without a TimeLimit.
func (i *Instance) Stop() error {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if i.handle == nil {
		return errClosed
	}
	return explained(func() C.int { return C.tane_instance_stop(i.handle) })
}

// Close waits for the call under way, and gives its memory back. Closing twice does no harm.
func (i *Instance) Close() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.handle != nil {
		runtime.SetFinalizer(i, nil)
		i.handle = nil
		close(i.work)
		<-i.ended
	}
	return nil
}
