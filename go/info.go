// SPDX-License-Identifier: GPL-2.0-only

package tane

/*
#include <tane.h>
*/
import "C"

import (
	"fmt"
	"io/fs"
	"syscall"
	"time"
)

// Stat is what Sys of a [fs.FileInfo] points to: all of statx(2).
type Stat struct {
	Ino, Dev, Rdev uint64
	// Length is in bytes, Blocks in units of 512 bytes.
	Length, Blocks uint64
	// Mode has Linux's bits, with S_IFMT.
	Mode, Nlink, UID, GID uint32
	// Attributes has STATX_ATTR_ bits.
	Attributes          uint64
	Atime, Mtime, Ctime time.Time
	// Btime is zero if it is not known.
	Btime time.Time
}

type info struct {
	name string
	stat Stat
}

func newInfo(name string, from *C.struct_tane_stat) *info {
	at := func(t C.struct_tane_timestamp) time.Time {
		return time.Unix(int64(t.seconds), int64(t.nanoseconds))
	}
	stat := Stat{
		Ino: uint64(from.ino), Dev: uint64(from.dev), Rdev: uint64(from.rdev),
		Length: uint64(from.length), Blocks: uint64(from.blocks),
		Mode: uint32(from.mode), Nlink: uint32(from.nlink),
		UID: uint32(from.uid), GID: uint32(from.gid),
		Attributes: uint64(from.attributes),
		Atime:      at(from.atime), Mtime: at(from.mtime), Ctime: at(from.ctime),
	}
	if from.has_btime != 0 {
		stat.Btime = at(from.btime)
	}
	return &info{name, stat}
}

func (i *info) Name() string       { return i.name }
func (i *info) Size() int64        { return int64(i.stat.Length) }
func (i *info) Mode() fs.FileMode  { return mode(i.stat.Mode) }
func (i *info) ModTime() time.Time { return i.stat.Mtime }
func (i *info) IsDir() bool        { return i.Mode().IsDir() }
func (i *info) Sys() any           { return &i.stat }

// String is what fs.FormatFileInfo of Go 1.21 gives.
func (i *info) String() string {
	return fmt.Sprintf("%s %d %s %s%s", i.Mode(), i.Size(),
		i.ModTime().Format("2006-01-02 15:04:05"), i.name, slash(i.IsDir()))
}

func slash(dir bool) string {
	if dir {
		return "/"
	}
	return ""
}

// mode makes Go's of Linux's bits.
func mode(bits uint32) fs.FileMode {
	mode := fs.FileMode(bits & 0o777)
	switch bits & syscall.S_IFMT {
	case syscall.S_IFDIR:
		mode |= fs.ModeDir
	case syscall.S_IFLNK:
		mode |= fs.ModeSymlink
	case syscall.S_IFIFO:
		mode |= fs.ModeNamedPipe
	case syscall.S_IFSOCK:
		mode |= fs.ModeSocket
	case syscall.S_IFBLK:
		mode |= fs.ModeDevice
	case syscall.S_IFCHR:
		mode |= fs.ModeDevice | fs.ModeCharDevice
	}
	for bit, is := range special {
		if bits&bit != 0 {
			mode |= is
		}
	}
	return mode
}

// permissions makes Linux's bits of Go's.
func permissions(mode fs.FileMode) C.uint32_t {
	bits := uint32(mode.Perm())
	for bit, is := range special {
		if mode&is != 0 {
			bits |= bit
		}
	}
	return C.uint32_t(bits)
}

var special = map[uint32]fs.FileMode{
	syscall.S_ISUID: fs.ModeSetuid,
	syscall.S_ISGID: fs.ModeSetgid,
	syscall.S_ISVTX: fs.ModeSticky,
}

// entry is one of a directory. Info is asked for when it is wanted.
type entry struct {
	fs   *FS
	dir  string
	name string
	kind fs.FileMode
}

func (e *entry) Name() string               { return e.name }
func (e *entry) IsDir() bool                { return e.kind.IsDir() }
func (e *entry) Type() fs.FileMode          { return e.kind }
func (e *entry) Info() (fs.FileInfo, error) { return e.fs.Lstat(join(e.dir, e.name)) }

// String is what fs.FormatDirEntry of Go 1.21 gives: no permissions.
func (e *entry) String() string {
	kind := e.kind.String()
	return kind[:len(kind)-len("rwxrwxrwx")] + " " + e.name + slash(e.IsDir())
}

// join is path.Join of a directory and one name of it, which may be odd.
func join(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}
