// SPDX-License-Identifier: GPL-2.0-only

package tane

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"
)

func address(slice []byte) uintptr {
	return uintptr(unsafe.Pointer(&slice[0]))
}

// direct opens a new file of the host with these bytes for direct I/O.
func direct(t *testing.T, content []byte) *os.File {
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(name, os.O_RDWR|syscall.O_DIRECT, 0)
	if errors.Is(err, syscall.EINVAL) {
		t.Skip("the host's temporary files take no direct I/O")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

func TestBufferForIsTakenByAFileOfTheHostOpenForDirectIO(t *testing.T) {
	content := bytes.Repeat([]byte("direct"), 10_000)
	file := direct(t, content)
	buffer, err := BufferFor(file, len(content))
	if err != nil {
		t.Fatal(err)
	}
	if len(buffer) < len(content) {
		t.Fatalf("%d bytes for %d", len(buffer), len(content))
	}
	n, err := file.ReadAt(buffer, 0)
	if n != len(content) || err != nil && err != io.EOF {
		t.Fatal(n, err)
	}
	if !bytes.Equal(buffer[:n], content) {
		t.Error("other bytes")
	}
	if _, err := file.WriteAt(buffer, 0); err != nil {
		t.Error(err)
	}
}

func TestHostAlignmentIsWhatTheHostInsistsOn(t *testing.T) {
	file := direct(t, make([]byte, 64<<10))
	memory, offset, err := HostAlignment(file)
	if errors.Is(err, syscall.EOPNOTSUPP) {
		t.Skip("this host does not say what direct I/O wants: statx without STATX_DIOALIGN")
	}
	if err != nil {
		t.Fatal(err)
	}
	room := AlignedBytes(2*offset+memory, 2*memory)
	if _, err := file.ReadAt(room[memory:memory+offset], int64(offset)); err != nil {
		t.Errorf("aligned to %d in memory, %d in the file: %v", memory, offset, err)
	}
	if _, err := file.ReadAt(room[:offset], int64(offset/2)); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("half of %d in the file: %v", offset, err)
	}
	// In memory some take less than they say.
}
