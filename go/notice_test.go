// SPDX-License-Identifier: GPL-2.0-only

package tane

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// exported has nbdkit serve a disk at a socket, which it gets as systemd gives one: who
// connects need not wait for it.
func exported(t *testing.T, disk string) string {
	t.Helper()
	if _, err := exec.LookPath("nbdkit"); err != nil {
		t.Skip("no nbdkit: Debian's package nbdkit has it (make deps)")
	}
	path := filepath.Join(t.TempDir(), "nbd")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	socket, err := listener.(*net.UnixListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	script := `export LISTEN_PID=$$ LISTEN_FDS=1; exec nbdkit -f file "$1"`
	server := exec.Command("/bin/sh", "-c", script, "sh", disk)
	server.ExtraFiles = []*os.File{socket}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Kill()
		server.Wait()
	})
	return "nbd+unix:///?socket=" + path
}

func TestWhoOpensAnImageIsToldWhatItLacks(t *testing.T) {
	disk := image(t)
	for _, noJail := range []bool{false, true} {
		address := exported(t, disk)
		var told []string
		options := &Options{
			Write:  true,
			NoJail: noJail,
			Notice: func(text string) { told = append(told, text) },
		}
		fsys, err := Open(address, options)
		if err != nil {
			t.Fatal(err)
		}
		if err := fsys.Close(); err != nil {
			t.Error(err)
		}
		if len(told) != 1 || !strings.Contains(told[0], "NBD has no locks") {
			t.Errorf("no jail: %v; %q", noJail, told)
		}
		// Nothing is to be told to who reads.
		told, options.Write = nil, false
		fsys, err = Open(address, options)
		if err != nil {
			t.Fatal(err)
		}
		fsys.Close()
		if told != nil {
			t.Errorf("no jail: %v; %q", noJail, told)
		}
	}
}

func TestAPanicOfWhoIsToldIsOneOfWhoOpens(t *testing.T) {
	disk := image(t)
	for _, noJail := range []bool{false, true} {
		options := &Options{Write: true, NoJail: noJail}
		options.Notice = func(string) { panic("mine") }
		func() {
			defer func() {
				if cause := recover(); cause != "mine" {
					t.Errorf("no jail: %v; %v", noJail, cause)
				}
			}()
			Open(exported(t, disk), options)
			t.Errorf("no jail: %v; a panic was swallowed", noJail)
		}()
	}
}
