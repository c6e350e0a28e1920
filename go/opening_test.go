// SPDX-License-Identifier: GPL-2.0-only

package tane

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// openingCase is a row of tests/opening/cases.json: see the mod.rs beside it.
type openingCase struct {
	Name, Image string
	Options     struct {
		Write                   bool
		Format, Overlay, Verity string
		Trust, With, Lower      []string
		Secrets                 []string
		SectorSize              uint32 `json:"sector_size"`
	}
	Writes  map[string]string
	Forgets bool
	Reads   map[string]string
	Fails   *struct{ Errno, Says string }
}

var openingErrnos = map[string]syscall.Errno{
	"EACCES": syscall.EACCES, "EBADMSG": syscall.EBADMSG, "EINVAL": syscall.EINVAL,
	"ENOENT": syscall.ENOENT, "ENOKEY": syscall.ENOKEY, "ENOMEDIUM": syscall.ENOMEDIUM,
	"ENOTUNIQ": syscall.ENOTUNIQ, "ENXIO": syscall.ENXIO,
}

// options has all of them; a text that begins with "<" is the content of that file.
func (c *openingCase) options(t *testing.T) *Options {
	said := c.Options
	if strings.HasPrefix(said.Verity, "<") {
		text, err := os.ReadFile(said.Verity[1:])
		if err != nil {
			t.Fatal(err)
		}
		said.Verity = string(text)
	}
	options := &Options{Write: said.Write, Format: said.Format, Overlay: said.Overlay,
		Verity: said.Verity, Trust: said.Trust, With: said.With, Lower: said.Lower,
		SectorSize: said.SectorSize}
	for _, secret := range said.Secrets {
		options.Secrets = append(options.Secrets, []byte(secret))
	}
	return options
}

func (c *openingCase) run(t *testing.T) error {
	options := c.options(t)
	for name, text := range c.Writes {
		fsys, err := Open(c.Image, options)
		if err != nil {
			return err
		}
		if err = fsys.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
		if err = fsys.Close(); err != nil {
			return err
		}
	}
	fsys, err := Open(c.Image, options)
	if err != nil {
		return err
	}
	defer fsys.Close()
	for name, text := range c.Reads {
		if found, err := fs.ReadFile(fsys, name); err != nil || string(found) != text {
			t.Errorf("%s: %q, %v", name, found, err)
		}
	}
	for name, text := range c.Writes {
		found, err := fs.ReadFile(fsys, name)
		if c.Forgets && !errors.Is(err, fs.ErrNotExist) || !c.Forgets && string(found) != text {
			t.Errorf("%s: %q, %v", name, found, err)
		}
	}
	return nil
}

func TestGoOpensWhatTheTableSays(t *testing.T) {
	tests, err := filepath.Abs("../tests/opening")
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chdir(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chdir(before) })
	if said, err := exec.Command(filepath.Join(tests, "make"), ".").CombinedOutput(); err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) && failed.ExitCode() == 2 {
			t.Skip(string(said))
		}
		t.Fatalf("%v: %s", err, said)
	}
	table, err := os.ReadFile(filepath.Join(tests, "cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []openingCase
	if err := json.Unmarshal(table, &cases); err != nil {
		t.Fatal(err)
	}
	for _, one := range cases {
		t.Run(one.Name, func(t *testing.T) {
			err := one.run(t)
			if one.Fails == nil {
				if err != nil {
					t.Error(err)
				}
				return
			}
			errno, known := openingErrnos[one.Fails.Errno]
			if !known || !errors.Is(err, errno) || !strings.Contains(err.Error(), one.Fails.Says) {
				t.Errorf("%v is not %s", err, one.Fails.Errno)
			}
		})
	}
}
