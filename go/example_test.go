// SPDX-License-Identifier: GPL-2.0-only

package tane_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"tane"
)

// A site is put into an image and listed, as any user.
func Example() {
	dir, err := os.MkdirTemp("", "tane")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	disk := filepath.Join(dir, "disk.img")
	if out, err := exec.Command("mke2fs", "-q", "-t", "ext4", disk, "16M").CombinedOutput(); err != nil {
		fmt.Println(err, string(out))
		return
	}

	fsys, err := tane.Open(disk, &tane.Options{Write: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer fsys.Close()
	fsys.MkdirAll("var/www", 0o755)
	fsys.WriteFile("var/www/index.html", []byte("hello\n"), 0o644)

	fs.WalkDir(fsys, "var", func(path string, entry fs.DirEntry, err error) error {
		fmt.Println(path)
		return err
	})
	if err := fsys.Close(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// var
	// var/www
	// var/www/index.html
}
