// SPDX-License-Identifier: GPL-2.0-only

package tane

/*
#include <stdint.h>
*/
import "C"

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
)

// contexts are those of the images that are open, by numbers that C may keep.
var (
	contexts    sync.Map
	lastContext atomic.Uintptr
)

func register(ctx context.Context) uintptr {
	if ctx == nil {
		return 0
	}
	number := lastContext.Add(1)
	contexts.Store(number, ctx)
	return number
}

func forget(number uintptr) { contexts.Delete(number) }

// taneGoInterrupted is what the library asks while a call waits for a worker.
//
//export taneGoInterrupted
func taneGoInterrupted(number C.uintptr_t) (is C.int) {
	// It may be anybody's. That it panicked is found again by givenUp, where no C is beneath.
	defer func() {
		if recover() != nil {
			is = 1
		}
	}()
	ctx, found := contexts.Load(uintptr(number))
	if found && ctx.(context.Context).Err() != nil {
		return 1
	}
	return 0
}

// givenUp is what the context says, if err is of a call that ended with it.
func givenUp(number uintptr, err error) error {
	if err == nil || number == 0 || !errors.Is(err, syscall.EINTR) {
		return err
	}
	if ctx, found := contexts.Load(number); found {
		if cause := ctx.(context.Context).Err(); cause != nil {
			return cause
		}
	}
	return err
}
