// SPDX-License-Identifier: GPL-2.0-only

package tane

/*
#include <stdint.h>
#include <stdlib.h>
#include <tane.h>

extern int taneGoProgress(uintptr_t copy, uint64_t files, uint64_t bytes,
			  uint64_t total_files, uint64_t total_bytes);
extern void taneGoLost(uintptr_t copy, char *path, char *what, int error);
extern void taneGoFailed(uintptr_t copy, char *path, char *why, int error);
*/
import "C"

import (
	"context"
	"runtime"
	"runtime/cgo"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// MakeOptions say what image is made. The zero value, or nil, is the default; what is not
// set is as "tane make-image" has it without the option of that name (docs/cli.md).
type MakeOptions struct {
	// FS is ext2 to ext4, xfs, btrfs, f2fs, vfat, squashfs or erofs; "": ext4, or as the
	// file that describes a disk says.
	FS string
	// Size of the file system, in bytes; 0: what the files take.
	Size uint64
	// Label is the name of the file system.
	Label string
	// UUID of the file system; "": it follows from the content.
	UUID string
	// PartitionTable is "gpt" or "mbr", with one partition.
	PartitionTable string
	// Format is "raw" or "qcow2", whatever the name ends with.
	Format string
	// Compression of squashfs and erofs, or "none".
	Compression string
	// Owner is "keep", "root" or "UID:GID"; "": "keep".
	Owner string
	// Reference says which of several container images.
	Reference string
	// Options of the mount that is written to.
	Options string
	// Layers are tar archives to put on top.
	Layers []string
	// Metadata are mtree(5) files.
	Metadata []string
	// Xattrs are what getfattr --dump writes.
	Xattrs []string
	// SELinux are file_contexts(5) files.
	SELinux []string
	// Epoch is the time that it is; the zero time: the newest modification of a file.
	Epoch time.Time
	// AllTimes gives all files the time of Epoch, not only newer ones.
	AllTimes bool
	// SectorSize is that of the disk, in bytes; 0: 512.
	SectorSize uint32
	// Force replaces the image if it is there.
	Force bool
	// Strict makes nothing if anything had to be left behind.
	Strict bool
	// Progress is called now and then, from the beginning on, by one goroutine at a time
	// but not always by the same; totals are 0 until they are known. An error that it
	// returns ends the making, and is what MakeImage returns.
	Progress func(Progress) error
	// Context ends the making likewise when it is done. nil: nothing does.
	Context context.Context
}

// Made is an image that was made, or what became of one that was not.
type Made struct {
	// Size of the disk, in bytes.
	Size uint64
	// UUID of the file system, or of a disk's partition table.
	UUID string
	// Epoch is the time that it was.
	Epoch time.Time
	// Files and Bytes are what is in it; holes have no bytes.
	Files, Bytes uint64
	// Losses are what could not be kept of files that are in it.
	Losses []Loss
	// Failures are the files that could not be read or written.
	Failures []Failure
}

// MakeImage makes an image with a file system of the files of source: a directory, a tar
// archive or a container image; or the disk with several partitions that a file NAME.toml
// describes. The same input gives the same bytes as "tane make-image" gives. Its mkfs is
// run, and a kernel in this process writes the files, without a jail: a source that is not
// to be trusted is for the command. Nobody needs to be root.
//
// The image appears under its name when it is complete and durable, and not at all unless
// the error is nil. What had to be left behind is no error unless Strict is set: look at
// Made.Losses. The error is fs.ErrExist if the image is there and Force is not set,
// syscall.EINVAL if an option makes no sense, else that of the first file that could not be
// read or written. Made is there in any case.
func MakeImage(source, image string, options *MakeOptions) (*Made, error) {
	if options == nil {
		options = &MakeOptions{}
	}
	for _, text := range options.texts(source, image) {
		if strings.ContainsRune(text, 0) {
			return &Made{}, &Error{syscall.EINVAL, "a name or an option has no NUL"}
		}
	}
	under := &underway{options: &CopyOptions{Progress: options.Progress, Context: options.Context}}
	handle := cgo.NewHandle(under)
	defer handle.Delete()
	var memory arena
	defer memory.free()
	given := options.given(&memory)
	given.progress = (*[0]byte)(C.taneGoProgress)
	given.loss = (*[0]byte)(C.taneGoLost)
	given.failure = (*[0]byte)(C.taneGoFailed)
	// A number, which Go would not have in a pointer.
	*(*uintptr)(unsafe.Pointer(&given.arg)) = uintptr(handle)
	made := (*C.struct_tane_made)(memory.get(C.sizeof_struct_tane_made))
	made.size = C.sizeof_struct_tane_made
	from, to := C.CString(source), C.CString(image)
	defer free(from)
	defer free(to)
	err := explained(func() C.int { return C.tane_make_image(from, to, given, made) })
	runtime.KeepAlive(under)
	if under.panicked != nil {
		panic(under.panicked)
	}
	if under.stopped != nil {
		err = under.stopped
	}
	return &Made{
		Size:     uint64(made.image_size),
		UUID:     C.GoString(&made.uuid[0]),
		Epoch:    time.Unix(int64(made.epoch), 0),
		Files:    uint64(made.files),
		Bytes:    uint64(made.bytes),
		Losses:   under.losses,
		Failures: under.failures,
	}, err
}

// texts are all that C gets.
func (o *MakeOptions) texts(more ...string) []string {
	texts := append(more, o.FS, o.Label, o.UUID, o.PartitionTable, o.Format, o.Compression,
		o.Owner, o.Reference, o.Options)
	for _, list := range [][]string{o.Layers, o.Metadata, o.Xattrs, o.SELinux} {
		texts = append(texts, list...)
	}
	return texts
}

func (o *MakeOptions) given(memory *arena) *C.struct_tane_make_options {
	given := (*C.struct_tane_make_options)(memory.get(C.sizeof_struct_tane_make_options))
	given.size = C.sizeof_struct_tane_make_options
	for flag, wanted := range map[C.uint32_t]bool{
		C.TANE_MAKE_STRICT:    o.Strict,
		C.TANE_MAKE_FORCE:     o.Force,
		C.TANE_MAKE_ALL_TIMES: o.AllTimes,
		C.TANE_MAKE_EPOCH:     !o.Epoch.IsZero(),
	} {
		if wanted {
			given.flags |= flag
		}
	}
	if !o.Epoch.IsZero() {
		given.epoch = C.uint64_t(o.Epoch.Unix())
	}
	given.sector_size = C.uint32_t(o.SectorSize)
	given.image_size = C.uint64_t(o.Size)
	given.fs = memory.text(o.FS)
	given.label = memory.text(o.Label)
	given.uuid = memory.text(o.UUID)
	given.partition_table = memory.text(o.PartitionTable)
	given.format = memory.text(o.Format)
	given.compression = memory.text(o.Compression)
	given.owner = memory.text(o.Owner)
	given.reference = memory.text(o.Reference)
	given.options = memory.text(o.Options)
	given.layers = memory.list(o.Layers)
	given.metadata = memory.list(o.Metadata)
	given.xattrs = memory.list(o.Xattrs)
	given.selinux = memory.list(o.SELinux)
	return given
}
