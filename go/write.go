// SPDX-License-Identifier: GPL-2.0-only

package tane

/*
#include <stdlib.h>
#include <tane.h>
*/
import "C"

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"
	"unsafe"
)

// Create makes a file, or empties one, for reading and writing.
func (f *FS) Create(name string) (*File, error) {
	return f.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}

// WriteFile makes a file of this content; one that was there keeps its mode.
func (f *FS) WriteFile(name string, content []byte, mode fs.FileMode) error {
	file, err := f.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.Write(content)
	return err
}

// Modes are exact here: there is no umask.

func (f *FS) Mkdir(name string, mode fs.FileMode) error {
	return f.call("mkdir", name, func(m *C.struct_tane_mount, at *C.char) int64 {
		return int64(C.tane_mkdir(m, at, permissions(mode)))
	})
}

// MkdirAll also makes what is missing on the way; a directory that exists is fine.
func (f *FS) MkdirAll(name string, mode fs.FileMode) error {
	err := f.Mkdir(name, mode)
	if errors.Is(err, fs.ErrNotExist) && name != "." {
		if err = f.MkdirAll(path.Dir(name), mode); err == nil {
			err = f.Mkdir(name, mode)
		}
	}
	if errors.Is(err, fs.ErrExist) {
		if info, failed := f.Stat(name); failed == nil && info.IsDir() {
			return nil
		}
	}
	return err
}

// Remove removes a file, a link or an empty directory.
func (f *FS) Remove(name string) error {
	err := f.call("remove", name, func(m *C.struct_tane_mount, at *C.char) int64 {
		return int64(C.tane_unlink(m, at))
	})
	if !errors.Is(err, syscall.EISDIR) && !errors.Is(err, syscall.EPERM) {
		return err
	}
	return f.call("remove", name, func(m *C.struct_tane_mount, at *C.char) int64 {
		return int64(C.tane_rmdir(m, at))
	})
}

// RemoveAll removes a directory with all below it. What is not there is fine.
func (f *FS) RemoveAll(name string) error {
	err := f.call("removeall", name, func(m *C.struct_tane_mount, at *C.char) int64 {
		return int64(C.tane_remove_all(m, at))
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// two makes a call with a second path.
func (f *FS) two(op, name, other string, call func(m *C.struct_tane_mount, at, to *C.char) C.int) error {
	if !valid(other) {
		return &fs.PathError{Op: op, Path: other, Err: fs.ErrInvalid}
	}
	to := C.CString(path.Join(f.below, other))
	defer free(to)
	return f.call(op, name, func(m *C.struct_tane_mount, at *C.char) int64 {
		return int64(call(m, at, to))
	})
}

// Rename replaces what has the new name, at once.
func (f *FS) Rename(name, to string) error {
	return f.two("rename", name, to, func(m *C.struct_tane_mount, at, to *C.char) C.int {
		return C.tane_rename(m, at, to, 0)
	})
}

// Link gives a file a second name.
func (f *FS) Link(name, to string) error {
	return f.two("link", name, to, func(m *C.struct_tane_mount, at, to *C.char) C.int {
		return C.tane_link(m, at, to)
	})
}

// Symlink makes name a symbolic link, which may say anything.
func (f *FS) Symlink(target, name string) error {
	says := C.CString(target)
	defer free(says)
	return f.call("symlink", name, func(m *C.struct_tane_mount, at *C.char) int64 {
		return int64(C.tane_symlink(m, says, at))
	})
}

func (f *FS) Chmod(name string, mode fs.FileMode) error {
	return f.call("chmod", name, func(m *C.struct_tane_mount, at *C.char) int64 {
		return int64(C.tane_chmod(m, at, permissions(mode)))
	})
}

// Chown follows symbolic links; Lchown does not.
func (f *FS) Chown(name string, uid, gid int) error { return f.chown(name, uid, gid, 0) }

func (f *FS) Lchown(name string, uid, gid int) error {
	return f.chown(name, uid, gid, C.TANE_NOFOLLOW)
}

func (f *FS) chown(name string, uid, gid int, flags C.int) error {
	return f.call("chown", name, func(m *C.struct_tane_mount, at *C.char) int64 {
		return int64(C.tane_chown(m, at, C.uint32_t(uid), C.uint32_t(gid), flags))
	})
}

// Chtimes sets times to the nanosecond; a zero time leaves one alone.
func (f *FS) Chtimes(name string, atime, mtime time.Time) error {
	from := func(t time.Time) C.struct_tane_timestamp {
		if t.IsZero() {
			return C.struct_tane_timestamp{nanoseconds: C.TANE_TIME_KEEP}
		}
		return C.struct_tane_timestamp{
			seconds:     C.int64_t(t.Unix()),
			nanoseconds: C.uint32_t(t.Nanosecond()),
		}
	}
	a, b := from(atime), from(mtime)
	return f.call("chtimes", name, func(m *C.struct_tane_mount, at *C.char) int64 {
		return int64(C.tane_utimens(m, at, &a, &b, 0))
	})
}

// Truncate sets a file's length in bytes.
func (f *FS) Truncate(name string, length int64) error {
	return f.call("truncate", name, func(m *C.struct_tane_mount, at *C.char) int64 {
		return int64(C.tane_truncate(m, at, C.uint64_t(length)))
	})
}

// Sync returns when all that was written has reached the image.
func (f *FS) Sync() error {
	return f.call("sync", ".", func(m *C.struct_tane_mount, _ *C.char) int64 {
		return int64(C.tane_sync(m))
	})
}

// Getxattr is an extended attribute of what name is itself, without following it.
func (f *FS) Getxattr(name, attribute string) ([]byte, error) {
	key := C.CString(attribute)
	defer free(key)
	return f.grown("getxattr", name, func(m *C.struct_tane_mount, at *C.char, buf unsafe.Pointer, size C.size_t) C.int64_t {
		return C.tane_getxattr(m, at, key, buf, size, C.TANE_NOFOLLOW)
	})
}

// Listxattr has their names.
func (f *FS) Listxattr(name string) ([]string, error) {
	list, err := f.grown("listxattr", name, func(m *C.struct_tane_mount, at *C.char, buf unsafe.Pointer, size C.size_t) C.int64_t {
		return C.tane_listxattr(m, at, (*C.char)(buf), size, C.TANE_NOFOLLOW)
	})
	var names []string
	for start, i := 0, 0; i < len(list); i++ {
		if list[i] == 0 {
			names = append(names, string(list[start:i]))
			start = i + 1
		}
	}
	return names, err
}

// Setxattr makes or replaces one.
func (f *FS) Setxattr(name, attribute string, value []byte) error {
	key := C.CString(attribute)
	defer free(key)
	content := C.CBytes(value)
	defer C.free(content)
	return f.call("setxattr", name, func(m *C.struct_tane_mount, at *C.char) int64 {
		return int64(C.tane_setxattr(m, at, key, content, C.size_t(len(value)), 0, C.TANE_NOFOLLOW))
	})
}

// Removexattr removes one.
func (f *FS) Removexattr(name, attribute string) error {
	key := C.CString(attribute)
	defer free(key)
	return f.call("removexattr", name, func(m *C.struct_tane_mount, at *C.char) int64 {
		return int64(C.tane_removexattr(m, at, key, C.TANE_NOFOLLOW))
	})
}

// grown gets bytes of an unknown number, which may change in between.
func (f *FS) grown(op, name string, get func(*C.struct_tane_mount, *C.char, unsafe.Pointer, C.size_t) C.int64_t) ([]byte, error) {
	for size := C.size_t(256); ; size *= 4 {
		bytes := make([]byte, size)
		n, err := f.value(op, name, func(m *C.struct_tane_mount, at *C.char) int64 {
			return int64(get(m, at, unsafe.Pointer(&bytes[0]), size))
		})
		if err == nil {
			return bytes[:n], nil
		}
		if !errors.Is(err, syscall.ERANGE) {
			return nil, err
		}
	}
}
