// SPDX-License-Identifier: GPL-2.0-only

package tane

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// rich is a tree with what a copy is to keep: a hole, a hard link, an attribute, times.
func rich(t *testing.T) string {
	t.Helper()
	top := filepath.Join(t.TempDir(), "rich")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(top, "d/empty"), 0o750))
	file, err := os.Create(filepath.Join(top, "holes"))
	must(err)
	_, err = file.WriteAt([]byte("end"), 8<<20)
	must(err)
	must(file.Close())
	must(os.Link(filepath.Join(top, "holes"), filepath.Join(top, "d/second")))
	must(os.Symlink("../holes", filepath.Join(top, "d/link")))
	must(syscall.Setxattr(filepath.Join(top, "d"), "user.note", []byte("kept"), 0))
	must(syscall.Mkfifo(filepath.Join(top, "fifo"), 0o640))
	must(os.Chtimes(filepath.Join(top, "holes"), time.Unix(1, 2), time.Unix(3, 456)))
	return top
}

// blank is an ext4 with nothing in it.
func blank(t *testing.T) string {
	t.Helper()
	disk := filepath.Join(t.TempDir(), "blank.img")
	run(t, "mke2fs", "-q", "-t", "ext4", disk, "64M")
	return disk
}

// same compares two trees by rsync, with all that it knows to compare.
func same(t *testing.T, one, other string) {
	t.Helper()
	said := run(t, "rsync", "-naHAXci", "--delete", one+"/", other+"/")
	for _, line := range strings.Split(said, "\n") {
		// Times of directories are those of the copy's end on some hosts.
		if line != "" && !strings.HasPrefix(line, ".d..t") {
			t.Errorf("%s and %s differ: %s", one, other, line)
		}
	}
}

func TestACopyInAndOutKeepsAllOfATree(t *testing.T) {
	if _, err := exec.LookPath("rsync"); err != nil {
		t.Fatal("rsync is not installed: scripts/install-deps")
	}
	source := rich(t)
	for _, noJail := range []bool{false, true} {
		fsys := open(t, blank(t), &Options{Write: true, NoJail: noJail})
		var last Progress
		copied, err := fsys.CopyIn(source, "rich", &CopyOptions{
			Strict:   true,
			Progress: func(p Progress) error { last = p; return nil },
		})
		if err != nil || copied.Files != 1 || copied.Links != 1 || copied.Directories != 3 || copied.Others != 2 {
			t.Fatalf("%+v, %v", copied, err)
		}
		if last.Files != 1 || last.TotalFiles == 0 {
			t.Errorf("%+v", last)
		}
		// Elsewhere in the same image, and into another one.
		other := open(t, blank(t), &Options{Write: true, NoJail: noJail})
		if _, err := fsys.CopyTo("rich", fsys, "again", &CopyOptions{Strict: true}); err != nil {
			t.Fatal(err)
		}
		if _, err := fsys.CopyTo("again", other, "rich", &CopyOptions{Strict: true}); err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(t.TempDir(), "out")
		copied, err = other.CopyOut("rich", out, nil)
		if err != nil || len(copied.Losses)+len(copied.Failures) > 0 {
			t.Fatalf("%+v, %v", copied, err)
		}
		same(t, source, out)
		info, err := os.Stat(filepath.Join(out, "holes"))
		if err != nil || info.Sys().(*syscall.Stat_t).Blocks > 1024 {
			t.Errorf("%v, %v: the hole is full", info, err)
		}
	}
}

func TestWhatACopyCannotKeepIsToldAndAnErrorIfStrict(t *testing.T) {
	disk := filepath.Join(t.TempDir(), "fat.img")
	run(t, "truncate", "-s", "64M", disk)
	run(t, "mkfs.vfat", disk)
	fsys := open(t, disk, &Options{Write: true})
	source := rich(t)
	copied, err := fsys.CopyIn(source, "rich", nil)
	lost := map[string]bool{}
	for _, loss := range copied.Losses {
		lost[loss.Path] = true
		if loss.What == "" || loss.Err == nil {
			t.Errorf("%+v", loss)
		}
	}
	if !lost["d"] || !lost["d/second"] {
		t.Errorf("the attribute and the hard link are no losses: %+v", copied.Losses)
	}
	// A FAT has no FIFOs.
	failed := false
	for _, failure := range copied.Failures {
		failed = failed || failure.Path == "fifo"
	}
	if failed != (err != nil) {
		t.Errorf("%+v, %v", copied.Failures, err)
	}
	if _, err := fsys.CopyIn(source, "strict", &CopyOptions{Strict: true}); err == nil {
		t.Error("nothing of it was kept, and that is no error")
	}
}

func TestACopyThatIsStoppedSaysWhy(t *testing.T) {
	fsys := open(t, image(t), &Options{Write: true})
	mine := errors.New("enough")
	out := filepath.Join(t.TempDir(), "out")
	_, err := fsys.CopyOut(".", out, &CopyOptions{Progress: func(Progress) error { return mine }})
	if !errors.Is(err, mine) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = fsys.CopyOut(".", filepath.Join(t.TempDir(), "out"), &CopyOptions{Context: ctx})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	func() {
		defer func() {
			if said := recover(); said != "mine" {
				t.Errorf("%v", said)
			}
		}()
		panics := func(Progress) error { panic("mine") }
		fsys.CopyOut(".", filepath.Join(t.TempDir(), "out"), &CopyOptions{Progress: panics})
		t.Error("a panic was swallowed")
	}()
	var failed *fs.PathError
	_, err = fsys.CopyOut("none", out, nil)
	if !errors.Is(err, fs.ErrNotExist) || !errors.As(err, &failed) || failed.Path != "none" {
		t.Errorf("%v", err)
	}
	if _, err := fsys.CopyOut("../etc", out, nil); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("%v", err)
	}
	fsys.Close()
	if _, err := fsys.CopyOut("etc", out, nil); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("%v", err)
	}
}
