// SPDX-License-Identifier: GPL-2.0-only

package tane

/*
#cgo CFLAGS: -I${SRCDIR}/../capi/include
#cgo LDFLAGS: -L${SRCDIR}/../target/release -L${SRCDIR}/../target/debug -ltane
#include <stdlib.h>
#include <tane.h>
*/
import "C"

import (
	"runtime"
	"syscall"
	"unsafe"
)

// Error is a failure to start a kernel or to open or mount an image: the errno,
// and a sentence for people that names the thing and the remedy.
type Error struct {
	Errno syscall.Errno
	Text  string
}

func (e *Error) Error() string { return e.Text }
func (e *Error) Unwrap() error { return e.Errno }

// explained makes a call that fails with a message. The message belongs to the
// operating system's thread, which the goroutine must keep in between.
func explained(call func() C.int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if result := call(); result < 0 {
		errno := syscall.Errno(-result)
		text := C.GoString(C.tane_error_message())
		if text == "" {
			text = errno.Error()
		}
		return &Error{Errno: errno, Text: text}
	}
	return nil
}

func free(text *C.char) { C.free(unsafe.Pointer(text)) }
