// SPDX-License-Identifier: GPL-2.0-only

package tane

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestAnImageIsMadeOfATreeAndIsTheSameEachTime(t *testing.T) {
	source := rich(t)
	dir := t.TempDir()
	var last Progress
	calls := 0
	options := &MakeOptions{
		Label:  "from Go",
		Owner:  "12:34",
		Epoch:  time.Unix(1_700_000_000, 0),
		Strict: true,
		Progress: func(p Progress) error {
			if p.Files < last.Files || p.Bytes < last.Bytes {
				t.Errorf("%+v after %+v", p, last)
			}
			last, calls = p, calls+1
			return nil
		},
	}
	disk, again := filepath.Join(dir, "one.img"), filepath.Join(dir, "two.img")
	made, err := MakeImage(source, disk, options)
	if err != nil {
		t.Fatal(err)
	}
	if calls == 0 || last.TotalFiles != 1 || last.Files != 1 {
		t.Errorf("%d calls, %+v", calls, last)
	}
	info, err := os.Stat(disk)
	if err != nil || uint64(info.Size()) != made.Size || made.Files != 1 || made.Epoch.Unix() != 1_700_000_000 {
		t.Errorf("%+v, %+v, %v", info, made, err)
	}
	run(t, "e2fsck", "-fn", disk)
	if said := run(t, "blkid", "-o", "value", "-s", "UUID", "-s", "LABEL", disk); !strings.Contains(said, made.UUID) || !strings.Contains(said, "from Go") {
		t.Error(said)
	}
	options.Progress = nil
	if _, err := MakeImage(source, again, options); err != nil {
		t.Fatal(err)
	}
	one, err := os.ReadFile(disk)
	two, err2 := os.ReadFile(again)
	if err != nil || err2 != nil || !bytes.Equal(one, two) {
		t.Error("the images differ", err, err2)
	}
	fsys := open(t, disk, nil)
	if target, err := fsys.ReadLink("d/link"); err != nil || target != "../holes" {
		t.Error(target, err)
	}
	held, err := fsys.Stat("d")
	if err != nil {
		t.Fatal(err)
	}
	if stat := held.Sys().(*Stat); stat.UID != 12 || stat.GID != 34 {
		t.Errorf("%+v", stat)
	}
}

func TestAnImageThatIsNotMadeLeavesNothingAndSaysWhy(t *testing.T) {
	source := rich(t)
	disk := filepath.Join(t.TempDir(), "disk.img")
	mine := errors.New("enough")
	_, err := MakeImage(source, disk, &MakeOptions{Progress: func(Progress) error { return mine }})
	if !errors.Is(err, mine) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := MakeImage(source, disk, &MakeOptions{Context: ctx}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	var said *Error
	_, err = MakeImage(source, disk, &MakeOptions{FS: "zfs"})
	if !errors.As(err, &said) || said.Errno != syscall.EINVAL || !strings.Contains(said.Text, "zfs") {
		t.Error(err)
	}
	if _, err := MakeImage(source, disk, &MakeOptions{Label: "a\x00b"}); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
	if _, err := MakeImage(filepath.Join(source, "none"), disk, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	func() {
		defer func() {
			if said := recover(); said != "mine" {
				t.Errorf("%v", said)
			}
		}()
		MakeImage(source, disk, &MakeOptions{Progress: func(Progress) error { panic("mine") }})
		t.Error("a panic was swallowed")
	}()
	// A FAT has no FIFOs, no links and no attributes.
	_, err = MakeImage(source, disk, &MakeOptions{FS: "vfat", Strict: true})
	if err == nil {
		t.Error("nothing of it was kept, and that is no error")
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(disk), "*")); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
	if err := os.WriteFile(disk, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := MakeImage(source, disk, nil); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	made, err := MakeImage(source, disk, &MakeOptions{FS: "vfat", Force: true})
	if len(made.Losses) == 0 {
		t.Errorf("%+v, %v", made, err)
	}
}
