// SPDX-License-Identifier: GPL-2.0-only

// Package tane reads and writes what is in disk images, by real Linux as a library: no
// root, no virtual machine, no mount on the host. It runs in a jailed process of its own
// ([Open]), or inside this process ([Boot], [Options.NoJail]).
//
//	fsys, err := tane.Open("disk.qcow2@1")
//	if err != nil { … }
//	defer fsys.Close()
//	release, err := fs.ReadFile(fsys, "etc/os-release")
//
// An [FS] is an [fs.FS] with all its extensions ([fs.ReadDirFS], [fs.StatFS],
// [fs.ReadFileFS], [fs.SubFS], and ReadLink and Lstat of fs.ReadLinkFS), so what
// takes one works on images: [fs.WalkDir], [fs.Glob], html/template, net/http.
// Paths follow its rules: no leading slash, no "..", "." is the root. Names are
// bytes, not always UTF-8. A symbolic link is followed inside the image only.
//
// Opened with [Options.Write] it can be changed too; the methods are named after
// those of package os. [FS.Close] writes all back, and returns what went wrong.
//
// Errors are [*fs.PathError] with a [syscall.Errno], so that errors.Is works with
// fs.ErrNotExist and with syscall.ENOSPC. Everything may be used from several
// goroutines at once, except that Close ends a handle.
//
// # Building
//
// The package calls libtane through cgo. Within the source tree that is found
// where cargo put it; elsewhere set CGO_CFLAGS and CGO_LDFLAGS. The kernel image is
// found as libtane finds it, or named by the environment variable TANE_IMAGE.
package tane
