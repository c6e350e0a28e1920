// SPDX-License-Identifier: GPL-2.0-only

package tane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"sort"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"
	"time"
)

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// image makes an ext4 with a tree in it, which mke2fs puts there.
func image(t *testing.T) string {
	t.Helper()
	return imageWith(t, 20, "")
}

// imageWith has so many empty files in etc, beside what every image has.
func imageWith(t *testing.T, files int, suffix string) string {
	t.Helper()
	tree := t.TempDir()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(tree, "etc/empty"), 0o755))
	must(os.WriteFile(filepath.Join(tree, "etc/os-release"), []byte("NAME=Seed\n"), 0o644))
	must(os.WriteFile(filepath.Join(tree, "large"), bytes.Repeat([]byte("0123456789abcdef"), 1<<12), 0o600))
	must(os.Symlink("etc/os-release", filepath.Join(tree, "release")))
	must(os.Link(filepath.Join(tree, "large"), filepath.Join(tree, "etc/linked")))
	for i := 0; i < files; i++ {
		must(os.WriteFile(filepath.Join(tree, fmt.Sprintf("etc/file-%03d%s", i, suffix)), nil, 0o644))
	}
	disk := filepath.Join(t.TempDir(), "disk.img")
	run(t, "mke2fs", "-q", "-t", "ext4", "-d", tree, disk, "64M")
	return disk
}

func open(t *testing.T, disk string, options *Options) *FS {
	t.Helper()
	fsys, err := Open(disk, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fsys.Close() })
	return fsys
}

func TestAnImageIsWhatPackageFsExpectsOfAFileSystem(t *testing.T) {
	fsys := open(t, image(t), nil)
	if err := fstest.TestFS(fsys, "etc/os-release", "etc/empty", "large", "release", "etc/file-019"); err != nil {
		t.Fatal(err)
	}
	below, err := fs.Sub(fsys, "etc")
	if err != nil {
		t.Fatal(err)
	}
	if err := fstest.TestFS(below, "os-release", "linked"); err != nil {
		t.Fatal(err)
	}
}

func TestADirectoryIsListedWholeAndInPieces(t *testing.T) {
	// More than one message of a worker has room for.
	const files = 1100
	suffix := strings.Repeat("-", 240)
	fsys := open(t, imageWith(t, files, suffix), nil)
	var want []string
	for i := 0; i < files; i++ {
		want = append(want, fmt.Sprintf("file-%03d%s", i, suffix))
	}
	want = append(want, "empty", "linked", "os-release")
	sort.Strings(want)
	names := func(entries []fs.DirEntry) (names []string) {
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
		return
	}
	whole, err := fs.ReadDir(fsys, "etc")
	if err != nil || !reflect.DeepEqual(names(whole), want) {
		t.Errorf("%d entries, %v", len(whole), err)
	}
	dir, err := fsys.Open("etc")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	var found []string
	for {
		entries, err := dir.(fs.ReadDirFile).ReadDir(7)
		found = append(found, names(entries)...)
		if err == io.EOF {
			break
		}
		if err != nil || len(entries) > 7 {
			t.Fatalf("%d entries, %v", len(entries), err)
		}
	}
	sort.Strings(found)
	if !reflect.DeepEqual(found, want) {
		t.Errorf("%d entries in pieces", len(found))
	}
}

func TestFilesLinksAndAttributesAreAsTheyWereMade(t *testing.T) {
	fsys := open(t, image(t), nil)
	content, err := fs.ReadFile(fsys, "release")
	if err != nil || string(content) != "NAME=Seed\n" {
		t.Errorf("%q, %v", content, err)
	}
	if to, err := fsys.ReadLink("release"); err != nil || to != "etc/os-release" {
		t.Errorf("%q, %v", to, err)
	}
	info, err := fsys.Stat("etc/linked")
	if err != nil {
		t.Fatal(err)
	}
	stat := info.Sys().(*Stat)
	if info.Size() != 1<<16 || info.Mode() != 0o600 || stat.Nlink != 2 {
		t.Errorf("%v, %d links", info, stat.Nlink)
	}
	file, err := fsys.OpenFile("large", os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	piece := make([]byte, 32)
	if n, err := file.ReadAt(piece, 1<<16-16); n != 16 || err != io.EOF {
		t.Errorf("%d, %v at the end", n, err)
	}
}

func TestErrorsAreThoseOfPackageFsAndOfLinux(t *testing.T) {
	disk := image(t)
	fsys := open(t, disk, nil)
	for name, want := range map[string]error{
		"missing":             fs.ErrNotExist,
		"etc/os-release/file": syscall.ENOTDIR,
		"../etc":              fs.ErrInvalid,
		"etc\x00":             fs.ErrInvalid,
	} {
		_, err := fsys.Open(name)
		var failed *fs.PathError
		if !errors.Is(err, want) || !errors.As(err, &failed) || failed.Path != name {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := fsys.WriteFile("new", nil, 0o644); !errors.Is(err, syscall.EROFS) {
		t.Errorf("writing to an image opened for reading: %v", err)
	}
	var explained *Error
	if _, err := Open(disk+"@7", nil); !errors.As(err, &explained) || explained.Errno != syscall.ENXIO {
		t.Errorf("no such partition: %v", err)
	}
	if _, err := Open("/nonexistent.img", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such image: %v", err)
	}
	fsys.Close()
	if _, err := fsys.Open("large"); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestWhatWasWrittenIsThereForE2fsckAndDebugfs(t *testing.T) {
	disk := image(t)
	fsys := open(t, disk, &Options{Write: true})
	when := time.Unix(1234567890, 123456789)
	odd := "bytes \xff\xfe\nand a newline"
	for _, err := range []error{
		fsys.MkdirAll("srv/www/html", 0o750),
		fsys.WriteFile("srv/www/html/index.html", []byte("hello\n"), 0o640),
		fsys.WriteFile(odd, []byte("odd\n"), 0o644),
		fsys.Symlink("../html", "srv/www/html/loop"),
		fsys.Link("srv/www/html/index.html", "srv/second"),
		fsys.Chmod("srv/www", 0o700|fs.ModeSetgid),
		fsys.Chown("srv/www/html/index.html", 33, 34),
		fsys.Chtimes("srv/www/html/index.html", time.Time{}, when),
		fsys.Setxattr("srv/second", "user.seed", []byte("kernel")),
		fsys.Rename("etc/os-release", "etc/renamed"),
		fsys.Truncate("large", 4096),
		fsys.Remove("etc/file-000"),
		fsys.Remove("etc/empty"),
		fsys.RemoveAll("etc/never-was"),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	if value, err := fsys.Getxattr("srv/www/html/index.html", "user.seed"); string(value) != "kernel" {
		t.Errorf("%q, %v", value, err)
	}
	fsys.Symlink("nowhere", "dangling")
	if _, err := fsys.Open("dangling"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a link to nowhere: %v", err)
	}
	if names, err := fsys.Listxattr("srv/second"); len(names) != 1 || names[0] != "user.seed" {
		t.Errorf("%q, %v", names, err)
	}
	if content, err := fsys.ReadFile(odd); string(content) != "odd\n" {
		t.Errorf("%q, %v", content, err)
	}
	if err := fsys.Close(); err != nil {
		t.Fatal(err)
	}
	run(t, "e2fsck", "-fn", disk)
	if said := run(t, "debugfs", "-R", "cat srv/second", disk); !strings.HasSuffix(said, "hello\n") {
		t.Errorf("debugfs reads %q", said)
	}
	stat := run(t, "debugfs", "-R", "stat srv/second", disk)
	for _, want := range []string{"User:    33", "Group:    34", "Links: 2", "mtime: 0x499602d2:1d6f3454", "user.seed"} {
		if !strings.Contains(stat, want) {
			t.Errorf("debugfs does not say %q:\n%s", want, stat)
		}
	}
}

func TestManyGoroutinesReadAtOnce(t *testing.T) {
	for _, noJail := range []bool{false, true} {
		readAtOnce(t, noJail)
	}
}

func readAtOnce(t *testing.T, noJail bool) {
	fsys := open(t, image(t), &Options{Kernel: KernelOptions{CPUs: 2}, NoJail: noJail})
	want, err := fsys.ReadFile("large")
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for i := 0; i < 64; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			content, err := fsys.ReadFile("etc/linked")
			if err != nil || !bytes.Equal(content, want) {
				t.Errorf("%d bytes, %v", len(content), err)
			}
			if entries, err := fsys.ReadDir("etc"); err != nil || len(entries) != 23 {
				t.Errorf("%d entries, %v", len(entries), err)
			}
		}()
	}
	group.Wait()
}

func TestAKernelHasAsManyCPUsAsAskedFor(t *testing.T) {
	kernel, err := Boot(&KernelOptions{CPUs: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer kernel.Close()
	if log := kernel.Log(); !strings.Contains(log, "1 node, 2 CPUs") {
		t.Error(log)
	}
}

func TestDirectReadsGoIntoBuffersOfTheKernel(t *testing.T) {
	disk := image(t)
	if _, err := open(t, disk, nil).NewBuffer(1 << 16); !errors.Is(err, syscall.EOPNOTSUPP) {
		t.Errorf("memory of a jailed kernel: %v", err)
	}
	fsys := open(t, disk, &Options{NoJail: true})
	file, err := fsys.OpenFile("large", os.O_RDONLY|syscall.O_DIRECT, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	memory, offset, err := file.DirectAlignment()
	if err != nil || memory <= 0 || memory > 4096 || offset < 512 {
		t.Fatalf("%d, %d, %v", memory, offset, err)
	}
	buffer, err := fsys.NewBuffer(1 << 16)
	if err != nil {
		t.Fatal(err)
	}
	defer buffer.Free()
	if n, err := file.ReadAt(buffer.Bytes(), 0); n != 1<<16 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	if want := bytes.Repeat([]byte("0123456789abcdef"), 1<<12); !bytes.Equal(buffer.Bytes(), want) {
		t.Error("other bytes")
	}
}

func TestAJailedKernelThatIsKilledIsAnError(t *testing.T) {
	fsys := open(t, image(t), &Options{TimeLimit: time.Second})
	for start := time.Now(); ; {
		_, err := fsys.ReadFile("etc/os-release")
		if errors.Is(err, syscall.ESHUTDOWN) {
			break
		}
		if err != nil || time.Since(start) > 5*time.Minute {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	var explained *Error
	if err := fsys.Close(); !errors.As(err, &explained) || !strings.Contains(explained.Text, "time limit of 1s") {
		t.Errorf("%v", err)
	}
}

func TestACallOfASilentProcessEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	disk, err := openImage(nil, image(t), &Options{Context: ctx})
	if err != nil {
		t.Fatal(err)
	}
	fsys, err := disk.Mount("")
	if err != nil {
		t.Fatal(err)
	}
	pid := disk.Worker()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(100*time.Millisecond, cancel)
	for err == nil {
		// It may still answer one while its threads stop.
		_, err = fsys.Lstat("large")
	}
	var failed *fs.PathError
	if !errors.Is(err, context.Canceled) || !errors.As(err, &failed) || failed.Path != "large" {
		t.Errorf("%v", err)
	}
	if err := fsys.Close(); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	disk.kernel.Close()
	disk.Close()
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the process is still there: %v", err)
	}
}

func TestAlignedBytesAreAlignedAndStayThere(t *testing.T) {
	for align := 1; align <= 1<<16; align *= 2 {
		for _, size := range []int{1, 511, 4096, 100000} {
			slice := AlignedBytes(size, align)
			if len(slice) != size || cap(slice) != size {
				t.Fatalf("%d bytes at %d: %d of %d", size, align, len(slice), cap(slice))
			}
			if at := address(slice); at%uintptr(align) != 0 {
				t.Fatalf("%d bytes at %d: at %#x", size, align, at)
			}
		}
	}
	// The host's own O_DIRECT takes them.
	file, err := os.CreateTemp(".", "direct-*")
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(file.Name())
	file.Write(make([]byte, 8192))
	file.Close()
	direct, err := os.OpenFile(file.Name(), os.O_RDONLY|syscall.O_DIRECT, 0)
	if err != nil {
		t.Skipf("the host's file system has no O_DIRECT: %v", err)
	}
	defer direct.Close()
	if n, err := direct.Read(AlignedBytes(4096, 4096)); n != 4096 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

func TestSeveralImagesAreSeenAsOne(t *testing.T) {
	layer := func(name string) string {
		tree := t.TempDir()
		for _, file := range []string{"all", name} {
			if err := os.WriteFile(filepath.Join(tree, file), []byte(name), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		disk := filepath.Join(t.TempDir(), name+".img")
		run(t, "mke2fs", "-q", "-t", "ext4", "-d", tree, disk, "16M")
		return disk
	}
	top, middle, base := layer("top"), layer("middle"), layer("base")
	for _, noJail := range []bool{false, true} {
		fsys := open(t, top, &Options{Lower: []string{middle, base}, NoJail: noJail})
		for file, want := range map[string]string{"all": "top", "top": "top", "middle": "middle", "base": "base"} {
			got, err := fs.ReadFile(fsys, file)
			if err != nil || string(got) != want {
				t.Errorf("%s: %q, %v; want %q", file, got, err, want)
			}
		}
	}
}
