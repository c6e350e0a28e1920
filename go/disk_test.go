// SPDX-License-Identifier: GPL-2.0-only

package tane

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"testing"
)

func TestADiskOfMemoryIsLargerThanThatAndTakesAFileSystem(t *testing.T) {
	kernel, err := Boot(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer kernel.Close()
	const size = 1 << 42
	disk, err := kernel.AddRAMDisk(size)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	end := bytes.Repeat([]byte("end"), 1000)
	if _, err := disk.WriteAt(end, size-int64(len(end))); err != nil {
		t.Fatal(err)
	}
	back := make([]byte, len(end)+1)
	n, err := disk.ReadAt(back, size-int64(len(end)))
	if n != len(end) || err != io.EOF || !bytes.Equal(back[:n], end) {
		t.Error(n, err)
	}
	content, err := os.ReadFile(image(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := disk.WriteAt(content, 0); err != nil {
		t.Fatal(err)
	}
	for round := 0; round < 2; round++ {
		fsys, err := disk.Mount("")
		if err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			err = fsys.WriteFile("new", []byte("in memory"), 0o600)
		} else if text, _ := fs.ReadFile(fsys, "new"); string(text) != "in memory" {
			t.Error(string(text))
		}
		if err != nil {
			t.Error(err)
		}
		if err := fsys.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestWhatIsWrittenToMemoryIsForgotten(t *testing.T) {
	name := image(t)
	before, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, noJail := range []bool{false, true} {
		fsys, err := Open(name, &Options{Write: true, Overlay: ":memory:", NoJail: noJail})
		if err != nil {
			t.Fatal(err)
		}
		if err := fsys.WriteFile("new", []byte("for now"), 0o600); err != nil {
			t.Error(err)
		}
		if err := fsys.Close(); err != nil {
			t.Error(err)
		}
		if after, _ := os.ReadFile(name); !bytes.Equal(before, after) {
			t.Error("the image has changed")
		}
	}
}
