// SPDX-License-Identifier: GPL-2.0-only

package tane

/*
#include <stddef.h>
#include <stdint.h>
*/
import "C"

import "runtime/cgo"

// told is who is told while an image is opened.
type told struct {
	notice func(string)
	// panicked is what it panicked with, which must not go through C.
	panicked any
}

// taneGoNotice is what the library tells what Options.Notice is to be told, from within
// the call that opens the image.
//
//export taneGoNotice
func taneGoNotice(number C.uintptr_t, text *C.char, length C.size_t) {
	told := cgo.Handle(number).Value().(*told)
	defer func() {
		if panicked := recover(); panicked != nil {
			told.panicked = panicked
		}
	}()
	if told.panicked == nil {
		told.notice(C.GoStringN(text, C.int(length)))
	}
}
