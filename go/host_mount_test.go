// SPDX-License-Identifier: GPL-2.0-only

package tane

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// point is a directory where something can be mounted by FUSE, or the test is skipped.
func point(t *testing.T) string {
	t.Helper()
	device, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	device.Close()
	if os.Geteuid() != 0 {
		t.Skip("takes root")
	}
	dir := t.TempDir()
	t.Cleanup(func() { exec.Command("umount", "-l", dir).Run() })
	return dir
}

func TestTheHostsProgramsSeeAndWriteWhatIsInTheImage(t *testing.T) {
	for _, noJail := range []bool{false, true} {
		at, disk := point(t), image(t)
		fsys := open(t, disk, &Options{Write: true, NoJail: noJail})
		shown, err := fsys.HostMount(at, &HostMountOptions{Source: "of a test"})
		if err != nil {
			t.Fatal(err)
		}
		if shown.Point() != at {
			t.Error(shown.Point())
		}
		if said := run(t, "cat", filepath.Join(at, "etc/os-release")); said != "NAME=Seed\n" {
			t.Error(said)
		}
		run(t, "cp", "-a", filepath.Join(at, "etc"), filepath.Join(at, "copy"))
		// In use it stays, and the file system with it.
		held, err := os.Open(filepath.Join(at, "large"))
		if err != nil {
			t.Fatal(err)
		}
		if err := shown.Unmount(); !errors.Is(err, syscall.EBUSY) {
			t.Error(err)
		}
		held.Close()
		if err := shown.Unmount(); err != nil {
			t.Fatal(err)
		}
		if err := shown.Close(); err != nil {
			t.Error(err)
		}
		if err := shown.Unmount(); !errors.Is(err, fs.ErrClosed) {
			t.Error(err)
		}
		if err := fsys.Close(); err != nil {
			t.Error(err)
		}
		run(t, "e2fsck", "-fn", disk)
		if said := run(t, "debugfs", "-R", "cat /copy/os-release", disk); !bytesEnd(said, "NAME=Seed\n") {
			t.Error(said)
		}
		if left, err := os.ReadDir(at); err != nil || len(left) > 0 {
			t.Error(left, err)
		}
	}
}

// bytesEnd: debugfs says its version first.
func bytesEnd(said, end string) bool {
	return len(said) >= len(end) && said[len(said)-len(end):] == end
}

func TestADirectoryCanBeShownAndWhoWaitsHearsOfTheEnd(t *testing.T) {
	at := point(t)
	fsys := open(t, image(t), nil)
	below, err := fsys.Sub("etc")
	if err != nil {
		t.Fatal(err)
	}
	shown, err := below.(*FS).HostMount(at, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer shown.Close()
	if _, err := os.Stat(filepath.Join(at, "os-release")); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := shown.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	waited := make(chan error)
	go func() { waited <- shown.Wait(context.Background()) }()
	run(t, "umount", at)
	if err := <-waited; err != nil {
		t.Error(err)
	}
	if err := shown.Unmount(); err != nil {
		t.Error(err)
	}
	var said *Error
	if _, err := fsys.HostMount(filepath.Join(at, "none"), nil); !errors.As(err, &said) || !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := fsys.HostMount("a\x00b", nil); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
}
