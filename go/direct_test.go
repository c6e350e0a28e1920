// SPDX-License-Identifier: GPL-2.0-only

package tane

import "unsafe"

func address(slice []byte) uintptr {
	return uintptr(unsafe.Pointer(&slice[0]))
}
