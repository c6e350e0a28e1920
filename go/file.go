// SPDX-License-Identifier: GPL-2.0-only

package tane

/*
#include <stdlib.h>
#include <tane.h>
*/
import "C"

import (
	"io"
	"io/fs"
	"path"
	"runtime"
	"sync"
	"syscall"
	"unsafe"
)

// File is an open file or directory of an [FS].
type File struct {
	fs   *FS
	name string
	// Calls hold it for reading, Close for writing.
	lock   sync.RWMutex
	handle *C.struct_tane_file
	// entries is the listing, made by the first ReadDir.
	entries *C.struct_tane_dir
}

var (
	_ fs.ReadDirFile     = (*File)(nil)
	_ io.ReadWriteSeeker = (*File)(nil)
	_ io.ReaderAt        = (*File)(nil)
	_ io.WriterAt        = (*File)(nil)
)

// OpenFile opens a file with the flags of package os, and of package syscall as far
// as Linux knows them (O_DIRECT among them). A file that os.O_CREATE makes gets
// exactly the permissions of mode.
func (f *FS) OpenFile(name string, flag int, mode fs.FileMode) (*File, error) {
	file := &File{fs: f, name: name}
	err := f.call("open", name, func(m *C.struct_tane_mount, at *C.char) int64 {
		flags := C.int(flag | syscall.O_CLOEXEC)
		return int64(C.tane_open(m, at, flags, permissions(mode), &file.handle))
	})
	if err != nil {
		return nil, err
	}
	runtime.SetFinalizer(file, (*File).Close)
	return file, nil
}

// Name is the path that the file was opened with.
func (f *File) Name() string { return f.name }

// moved runs a call that moves bytes or says where they are.
func (f *File) moved(op string, call func(*C.struct_tane_file) C.int64_t) (int64, error) {
	f.lock.RLock()
	defer f.lock.RUnlock()
	if f.handle == nil {
		return 0, &fs.PathError{Op: op, Path: f.name, Err: fs.ErrClosed}
	}
	n := int64(call(f.handle))
	if err := f.fs.mount.on(op, f.name, n); err != nil {
		return 0, err
	}
	return n, nil
}

func (f *File) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, err := f.moved("read", func(file *C.struct_tane_file) C.int64_t {
		return C.tane_read(file, unsafe.Pointer(&p[0]), C.size_t(len(p)))
	})
	if n == 0 && err == nil {
		err = io.EOF
	}
	return int(n), err
}

// ReadAt reads all of p, or to the end of the file, which is io.EOF.
func (f *File) ReadAt(p []byte, offset int64) (int, error) {
	if offset < 0 {
		return 0, &fs.PathError{Op: "readat", Path: f.name, Err: syscall.EINVAL}
	}
	done := 0
	for done < len(p) {
		n, err := f.moved("readat", func(file *C.struct_tane_file) C.int64_t {
			rest := p[done:]
			at := C.uint64_t(offset) + C.uint64_t(done)
			return C.tane_pread(file, unsafe.Pointer(&rest[0]), C.size_t(len(rest)), at)
		})
		if err != nil {
			return done, err
		}
		if n == 0 {
			return done, io.EOF
		}
		done += int(n)
	}
	return done, nil
}

func (f *File) Write(p []byte) (int, error) {
	return f.writeAll(p, func(file *C.struct_tane_file, rest []byte, _ int) C.int64_t {
		return C.tane_write(file, unsafe.Pointer(&rest[0]), C.size_t(len(rest)))
	})
}

// WriteAt writes all of p.
func (f *File) WriteAt(p []byte, offset int64) (int, error) {
	if offset < 0 {
		return 0, &fs.PathError{Op: "writeat", Path: f.name, Err: syscall.EINVAL}
	}
	return f.writeAll(p, func(file *C.struct_tane_file, rest []byte, done int) C.int64_t {
		at := C.uint64_t(offset) + C.uint64_t(done)
		return C.tane_pwrite(file, unsafe.Pointer(&rest[0]), C.size_t(len(rest)), at)
	})
}

func (f *File) writeAll(p []byte, write func(*C.struct_tane_file, []byte, int) C.int64_t) (int, error) {
	done := 0
	for done < len(p) {
		n, err := f.moved("write", func(file *C.struct_tane_file) C.int64_t {
			return write(file, p[done:], done)
		})
		if err != nil {
			return done, err
		}
		if n == 0 {
			return done, io.ErrShortWrite
		}
		done += int(n)
	}
	return done, nil
}

// Seek also knows Linux's SEEK_DATA (3) and SEEK_HOLE (4).
func (f *File) Seek(offset int64, whence int) (int64, error) {
	return f.moved("seek", func(file *C.struct_tane_file) C.int64_t {
		return C.tane_lseek(file, C.int64_t(offset), C.int(whence))
	})
}

// Sync returns when what was written has reached the image.
func (f *File) Sync() error {
	_, err := f.moved("sync", func(file *C.struct_tane_file) C.int64_t {
		return C.int64_t(C.tane_fsync(file))
	})
	return err
}

// Truncate sets the length in bytes.
func (f *File) Truncate(length int64) error {
	_, err := f.moved("truncate", func(file *C.struct_tane_file) C.int64_t {
		return C.int64_t(C.tane_ftruncate(file, C.uint64_t(length)))
	})
	return err
}

func (f *File) Stat() (fs.FileInfo, error) {
	var stat C.struct_tane_stat
	stat.size = C.sizeof_struct_tane_stat
	_, err := f.moved("stat", func(file *C.struct_tane_file) C.int64_t {
		return C.int64_t(C.tane_fstat(file, &stat))
	})
	if err != nil {
		return nil, err
	}
	return newInfo(path.Base(f.name), &stat), nil
}

// ReadDir gives up to n more entries, in the directory's own order; with n <= 0 all
// that are left.
func (f *File) ReadDir(n int) ([]fs.DirEntry, error) {
	f.lock.Lock()
	defer f.lock.Unlock()
	if f.handle == nil {
		return nil, &fs.PathError{Op: "readdir", Path: f.name, Err: fs.ErrClosed}
	}
	if f.entries == nil {
		err := f.fs.call("readdir", f.name, func(m *C.struct_tane_mount, at *C.char) int64 {
			return int64(C.tane_opendir(m, at, &f.entries))
		})
		if err != nil {
			return nil, err
		}
	}
	var list []fs.DirEntry
	var next C.struct_tane_dirent
	next.size = C.sizeof_struct_tane_dirent
	for n <= 0 || len(list) < n {
		more := int64(C.tane_readdir(f.entries, &next))
		if err := f.fs.mount.on("readdir", f.name, more); err != nil {
			return list, err
		}
		if more == 0 {
			if n > 0 && len(list) == 0 {
				return nil, io.EOF
			}
			break
		}
		name := C.GoStringN(&next.name[0], C.int(next.name_len))
		kind := mode(uint32(next._type)).Type()
		if next._type == 0 {
			info, err := f.fs.Lstat(join(f.name, name))
			if err != nil {
				return list, err
			}
			kind = info.Mode().Type()
		}
		list = append(list, &entry{f.fs, f.name, name, kind})
	}
	return list, nil
}

// Close ends the handle. What could not be written is Sync's to say, and FS.Close's.
func (f *File) Close() error {
	f.lock.Lock()
	defer f.lock.Unlock()
	if f.handle == nil {
		return &fs.PathError{Op: "close", Path: f.name, Err: fs.ErrClosed}
	}
	C.tane_closedir(f.entries)
	C.tane_close(f.handle)
	f.handle, f.entries = nil, nil
	runtime.SetFinalizer(f, nil)
	return nil
}
