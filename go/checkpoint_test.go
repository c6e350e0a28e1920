// SPDX-License-Identifier: GPL-2.0-only

package tane

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"testing"
)

// held is an image that is left as it is: what is written stays in memory.
func held(t *testing.T) (*Kernel, *FS) {
	t.Helper()
	kernel, err := Boot(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kernel.Close() })
	opened, err := kernel.OpenImage(image(t), &Options{Write: true, Overlay: ":memory:"})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	fsys, err := opened.Mount("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fsys.Close() })
	return kernel, fsys
}

func checkpoint(t *testing.T, kernel *Kernel) *Checkpoint {
	t.Helper()
	checkpoint, err := kernel.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { checkpoint.Close() })
	return checkpoint
}

func TestAKernelGoesBackAsOftenAsItIsAsked(t *testing.T) {
	kernel, fsys := held(t)
	if err := fsys.WriteFile("state", []byte("first"), 0o600); err != nil {
		t.Fatal(err)
	}
	first := checkpoint(t, kernel)
	for round := 0; round < 3; round++ {
		if err := fsys.WriteFile("state", []byte("second"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := fsys.WriteFile("new", nil, 0o600); err != nil {
			t.Fatal(err)
		}
		second := checkpoint(t, kernel)
		if err := kernel.Rollback(first); err != nil {
			t.Fatal(err)
		}
		if text, err := fs.ReadFile(fsys, "state"); string(text) != "first" {
			t.Error(string(text), err)
		}
		if _, err := fs.Stat(fsys, "new"); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		if err := kernel.Rollback(second); !errors.Is(err, syscall.ESTALE) {
			t.Error(err)
		}
	}
}

func TestWhatCannotGoBackIsRefusedWithItsReason(t *testing.T) {
	kernel, _ := held(t)
	other, err := Boot(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	past := checkpoint(t, kernel)
	if err := other.Rollback(past); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
	disk, err := kernel.AddRAMDisk(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	var said *Error
	err = kernel.Rollback(past)
	if !errors.Is(err, syscall.EBUSY) || !errors.As(err, &said) || said.Text == "" {
		t.Error(err)
	}
	disk.Close()
	if err := kernel.Rollback(past); err != nil {
		t.Error(err)
	}
	past.Close()
	past.Close()
	if err := kernel.Rollback(past); !errors.Is(err, syscall.EFAULT) {
		t.Error(err)
	}
	written, err := other.OpenImage(image(t), &Options{Write: true})
	if err != nil {
		t.Fatal(err)
	}
	defer written.Close()
	if _, err := other.Checkpoint(); !errors.Is(err, syscall.ENOTSUP) {
		t.Error(err)
	}
	jailed, err := Open(image(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer jailed.Close()
	if _, err := jailed.mount.kernel.Checkpoint(); !errors.Is(err, syscall.ENOTSUP) {
		t.Error(err)
	}
}

func TestOtherGoroutinesCallWhileTheKernelGoesBack(t *testing.T) {
	kernel, fsys := held(t)
	if err := fsys.WriteFile("still", []byte("there"), 0o600); err != nil {
		t.Fatal(err)
	}
	past := checkpoint(t, kernel)
	stop := make(chan struct{})
	var others sync.WaitGroup
	for n := 0; n < 2; n++ {
		others.Add(1)
		go func() {
			defer others.Done()
			for {
				select {
				case <-stop:
					return
				default:
				}
				text, err := fs.ReadFile(fsys, "still")
				// Opened in a moment that was undone: no descriptor any more.
				if err != nil && !errors.Is(err, syscall.EBADF) {
					t.Error(err)
				} else if err == nil && string(text) != "there" {
					t.Errorf("%q", text)
				}
			}
		}()
	}
	for round := 0; round < 50; round++ {
		if err := fsys.WriteFile("mine", nil, 0o600); err != nil {
			t.Error(err)
		}
		if err := kernel.Rollback(past); err != nil {
			t.Error(err)
		}
		if _, err := fs.Stat(fsys, "mine"); !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	}
	close(stop)
	others.Wait()
}

func TestMemoryGoesBackAndFilesStay(t *testing.T) {
	kernel, fsys := held(t)
	if err := fsys.WriteFile("state", []byte("written"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := kernel.Trim(); err != nil {
		t.Fatal(err)
	}
	if text, err := fs.ReadFile(fsys, "state"); err != nil || string(text) != "written" {
		t.Fatal(string(text), err)
	}
}
