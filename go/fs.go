// SPDX-License-Identifier: GPL-2.0-only

package tane

/*
#include <stdlib.h>
#include <tane.h>
*/
import "C"

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"sort"
	"strings"
	"sync"
	"syscall"
)

// FS is a file system of an image, mounted.
type FS struct {
	mount *mount
	// below is the directory that Sub was asked for, or "".
	below string
}

var (
	_ fs.ReadDirFS  = (*FS)(nil)
	_ fs.ReadFileFS = (*FS)(nil)
	_ fs.StatFS     = (*FS)(nil)
	_ fs.SubFS      = (*FS)(nil)
	_ io.Closer     = (*FS)(nil)
)

// mount is shared by an FS and those that Sub made of it. Calls hold the lock for
// reading, so that Close cannot take the handle away from under one.
type mount struct {
	sync.RWMutex
	handle *C.struct_tane_mount
	kernel *Kernel
	// owned: the kernel ends with the mount.
	owned bool
	// context is the number of Options.Context, or 0.
	context uintptr
}

// on is the error of an operation on a path; nil if result is none.
func (m *mount) on(op, name string, result int64) error {
	if result >= 0 {
		return nil
	}
	err := givenUp(m.context, syscall.Errno(-result))
	return &fs.PathError{Op: op, Path: name, Err: err}
}

func (m *mount) drop() { m.close() }

func (m *mount) close() error {
	m.Lock()
	defer m.Unlock()
	if m.handle == nil {
		return nil
	}
	handle := m.handle
	m.handle = nil
	runtime.SetFinalizer(m, nil)
	err := givenUp(m.context, explained(func() C.int { return C.tane_unmount(handle) }))
	if m.owned {
		m.kernel.Close()
		forget(m.context)
	}
	return err
}

// Close writes everything back, unmounts, and says what could not be written. Files
// that are still open keep the file system; that is syscall.EBUSY.
func (f *FS) Close() error { return f.mount.close() }

// call runs what needs the mount and a path, and makes its result an error.
func (f *FS) call(op, name string, call func(*C.struct_tane_mount, *C.char) int64) error {
	_, err := f.value(op, name, call)
	return err
}

func (f *FS) value(op, name string, call func(*C.struct_tane_mount, *C.char) int64) (int64, error) {
	if !valid(name) {
		return 0, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	at := C.CString(path.Join(f.below, name))
	defer free(at)
	f.mount.RLock()
	defer f.mount.RUnlock()
	if f.mount.handle == nil {
		return 0, &fs.PathError{Op: op, Path: name, Err: fs.ErrClosed}
	}
	result := call(f.mount.handle, at)
	return result, f.mount.on(op, name, result)
}

// valid is fs.ValidPath without its demand for UTF-8, which Linux does not make.
func valid(name string) bool {
	if name == "." {
		return true
	}
	for _, element := range strings.Split(name, "/") {
		if element == "" || element == "." || element == ".." {
			return false
		}
	}
	return !strings.ContainsRune(name, 0)
}

// Sub is the file system below a directory; Close of either ends both.
func (f *FS) Sub(dir string) (fs.FS, error) {
	info, err := f.Stat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, &fs.PathError{Op: "sub", Path: dir, Err: syscall.ENOTDIR}
	}
	return &FS{mount: f.mount, below: path.Join(f.below, dir)}, nil
}

// Open opens a file or directory for reading.
func (f *FS) Open(name string) (fs.File, error) {
	file, err := f.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	return file, nil
}

// Stat follows symbolic links.
func (f *FS) Stat(name string) (fs.FileInfo, error) { return f.stat("stat", name, 0) }

// Lstat does not follow a symbolic link that name itself is.
func (f *FS) Lstat(name string) (fs.FileInfo, error) {
	return f.stat("lstat", name, C.TANE_NOFOLLOW)
}

func (f *FS) stat(op, name string, flags C.int) (fs.FileInfo, error) {
	var stat C.struct_tane_stat
	stat.size = C.sizeof_struct_tane_stat
	err := f.call(op, name, func(m *C.struct_tane_mount, at *C.char) int64 {
		return int64(C.tane_stat(m, at, flags, &stat))
	})
	if err != nil {
		return nil, err
	}
	return newInfo(path.Base(name), &stat), nil
}

// ReadLink is what a symbolic link says.
func (f *FS) ReadLink(name string) (string, error) {
	for size := C.size_t(256); ; size *= 2 {
		text := make([]C.char, size)
		n, err := f.value("readlink", name, func(m *C.struct_tane_mount, at *C.char) int64 {
			return int64(C.tane_readlink(m, at, &text[0], size))
		})
		if err != nil {
			return "", err
		}
		if n < int64(size) {
			return C.GoStringN(&text[0], C.int(n)), nil
		}
	}
}

// ReadDir lists a directory by name.
func (f *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	file, err := f.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	entries, err := file.ReadDir(-1)
	sort.Slice(entries, func(i, j int) bool { return entries[i].Name() < entries[j].Name() })
	return entries, err
}

// ReadFile reads a file, whole.
func (f *FS) ReadFile(name string) ([]byte, error) {
	file, err := f.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, &fs.PathError{Op: "read", Path: name, Err: syscall.EISDIR}
	}
	// One byte more shows the end in the same call.
	content := make([]byte, 0, info.Size()+1)
	for {
		n, err := file.Read(content[len(content):cap(content)])
		content = content[:len(content)+n]
		if errors.Is(err, io.EOF) {
			return content, nil
		}
		if err != nil {
			return content, err
		}
		if len(content) == cap(content) {
			content = append(content, 0)[:len(content)]
		}
	}
}
