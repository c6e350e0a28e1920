// SPDX-License-Identifier: GPL-2.0-only

package tane

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// testModule is tests/support/module.c, built by whoever starts the tests.
func testModule(t *testing.T) *Module {
	t.Helper()
	name := os.Getenv("TANE_TEST_MODULE")
	if name == "" {
		t.Skip("TANE_TEST_MODULE names no module: cargo test -p tane-capi --test go does")
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	module, err := NewModule(data)
	if err != nil {
		t.Fatal(err)
	}
	return module
}

func twice(_ *Memory, args [6]int64) (int64, error) { return 2 * args[0], nil }

func testKernel(t *testing.T) *Kernel {
	t.Helper()
	kernel, err := Boot(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kernel.Close() })
	return kernel
}

func testInstance(t *testing.T, options InstanceOptions) *Instance {
	t.Helper()
	if options.FS == nil && options.Kernel == nil {
		options.Kernel, options.Directory = testKernel(t), "/"
	}
	if options.Imports == nil {
		options.Imports = map[string]Import{"twice": twice}
	}
	instance, err := testModule(t).Instance(&options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { instance.Close() })
	return instance
}

func call(t *testing.T, instance *Instance, function string, args ...int64) int64 {
	t.Helper()
	result, err := instance.Call(function, args...)
	if err != nil {
		t.Fatal(function, args, err)
	}
	return result
}

func TestWhatBreaksARuleIsNoModule(t *testing.T) {
	_, err := NewModule([]byte("something else"))
	if !errors.Is(err, syscall.ENOEXEC) || !strings.Contains(err.Error(), "R1") {
		t.Error(err)
	}
}

func TestFunctionsOfAModuleAreCalledAndCall(t *testing.T) {
	instance := testInstance(t, InstanceOptions{})
	if sum := call(t, instance, "add", 1<<40, -2); sum != 1<<40-2 {
		t.Error(sum)
	}
	if four := call(t, instance, "quadruple", 5); four != 20 {
		t.Error(four)
	}
	if _, err := instance.Call("none"); !errors.Is(err, syscall.ENOENT) {
		t.Error(err)
	}
	if _, err := instance.Call("add", 1, 2, 3, 4, 5, 6, 7); !errors.Is(err, syscall.E2BIG) {
		t.Error(err)
	}
}

func TestFaultsOfAModuleAreTraps(t *testing.T) {
	instance := testInstance(t, InstanceOptions{TimeLimit: 200 * time.Millisecond})
	for round := 0; round < 3; round++ {
		for _, one := range []struct {
			function string
			argument int64
			kind     TrapKind
		}{
			{"store", 0, TrapMemory},
			{"deep", 0, TrapStack},
			{"divide", 1, TrapDivide},
			{"unreachable", 0, TrapUnreachable},
			{"by_pointer", 0, TrapCall},
			{"for_ever", 0, TrapTime},
			{"leaves", 7, TrapExit},
		} {
			_, err := instance.Call(one.function, one.argument)
			var trap *Trap
			if !errors.As(err, &trap) || trap.Kind != one.kind {
				t.Fatal(one.function, err)
			}
			if trap.Kind == TrapDivide && (trap.Function != "divide" || trap.Line == 0 ||
				!strings.HasSuffix(trap.File, "module.c")) {
				t.Error(*trap)
			}
			if trap.Kind == TrapExit && trap.Code != 7 {
				t.Error(*trap)
			}
			// Faults of Go are still Go's.
			func() {
				defer func() {
					if _, is := recover().(runtime.Error); !is {
						t.Error("no panic")
					}
				}()
				var nobody *Trap
				nobody.Line++
			}()
			if four := call(t, instance, "quadruple", 1); four != 4 {
				t.Fatal(four)
			}
		}
	}
}

func TestMemoryOfAModuleIsCopiedWithinBounds(t *testing.T) {
	instance := testInstance(t, InstanceOptions{})
	at, constant := call(t, instance, "words"), call(t, instance, "constant")
	if _, err := instance.WriteAt([]byte("12345678"), at); err != nil {
		t.Fatal(err)
	}
	back := make([]byte, 8)
	if _, err := instance.ReadAt(back, at); err != nil || string(back) != "12345678" {
		t.Error(string(back), err)
	}
	start, end := instance.Heap()
	if heap := call(t, instance, "heap"); heap != start {
		t.Error(heap, start)
	}
	for _, wrong := range []int64{0, -1, 1 << 40, end - 7} {
		if _, err := instance.ReadAt(back, wrong); !errors.Is(err, syscall.EFAULT) {
			t.Error(wrong, err)
		}
	}
	if _, err := instance.WriteAt(back, constant); !errors.Is(err, syscall.EFAULT) {
		t.Error(err)
	}
	given, err := instance.Give([]byte("some words\000"))
	if err != nil || call(t, instance, "length", given) != 10 {
		t.Error(given, err)
	}
}

func TestAnErrorOfAnImportEndsTheCall(t *testing.T) {
	wrong, calls := errors.New("wrong"), 0
	var kept *Memory
	instance := testInstance(t, InstanceOptions{Imports: map[string]Import{
		"twice": func(memory *Memory, args [6]int64) (int64, error) {
			calls++
			kept = memory
			start, _ := memory.Heap()
			word := []byte{1}
			if _, err := memory.WriteAt(word, start); err != nil {
				t.Error(err)
			}
			if args[0] == 3 {
				panic("three")
			}
			return 0, wrong
		},
	}})
	if _, err := instance.Call("quadruple", 1); err != wrong || calls != 1 {
		t.Error(err, calls)
	}
	if _, err := kept.ReadAt(make([]byte, 1), 1<<20); err == nil {
		t.Error("it is good no more")
	}
	func() {
		defer func() {
			if cause := recover(); cause != "three" {
				t.Error(cause)
			}
		}()
		instance.Call("quadruple", 3)
	}()
	if sum := call(t, instance, "add", 1, 2); sum != 3 {
		t.Error(sum)
	}
}

func TestWhatAModuleImportsMustBeGiven(t *testing.T) {
	module, kernel := testModule(t), testKernel(t)
	all := map[string]Import{"twice": twice}
	for _, options := range []*InstanceOptions{
		nil,
		{Kernel: kernel, Directory: "/"},
		{Kernel: kernel, Imports: all},
		{Kernel: kernel, Directory: "/", Imports: all, Calls: []string{}},
	} {
		if _, err := module.Instance(options); !errors.Is(err, syscall.ENOSYS) {
			t.Error(options, err)
		}
	}
	options := &InstanceOptions{Kernel: kernel, Directory: "/", Calls: []string{"execve"}}
	if _, err := module.Instance(options); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
}

func TestGoroutinesShareAnInstance(t *testing.T) {
	instance := testInstance(t, InstanceOptions{TimeLimit: time.Hour})
	var wait sync.WaitGroup
	for n := int64(0); n < 8; n++ {
		n := n
		wait.Add(1)
		go func() {
			defer wait.Done()
			for i := 0; i < 50; i++ {
				if four, err := instance.Call("quadruple", n); err != nil || four != 4*n {
					t.Error(four, err)
				}
				runtime.Gosched()
			}
		}()
	}
	wait.Wait()
	go func() {
		time.Sleep(20 * time.Millisecond)
		if err := instance.Stop(); err != nil {
			t.Error(err)
		}
	}()
	var trap *Trap
	if _, err := instance.Call("for_ever"); !errors.As(err, &trap) || trap.Kind != TrapTime {
		t.Error(err)
	}
	instance.Close()
	instance.Close()
	if _, err := instance.Call("add"); !errors.Is(err, syscall.EBADF) {
		t.Error(err)
	}
}

func TestAnInstanceThatNobodyHasIsGone(t *testing.T) {
	module, kernel := testModule(t), testKernel(t)
	options := &InstanceOptions{Kernel: kernel, Directory: "/", Imports: map[string]Import{"twice": twice}}
	for i := 0; i < 100; i++ {
		instance, err := module.Instance(options)
		if err != nil {
			t.Fatal(err)
		}
		call(t, instance, "add", 1, 2)
	}
	count := func() (n int) {
		imported.Range(func(_, _ any) bool { n++; return true })
		return n
	}
	for i := 0; i < 500 && count() > 5; i++ {
		runtime.GC()
		time.Sleep(10 * time.Millisecond)
	}
	if count() > 5 {
		t.Error(count())
	}
}

func TestAModuleReadsFilesOfAnFSAndNoOthers(t *testing.T) {
	fsys := open(t, image(t), &Options{NoJail: true})
	below, err := fsys.Sub("etc")
	if err != nil {
		t.Fatal(err)
	}
	instance := testInstance(t, InstanceOptions{FS: below.(*FS)})
	for path, bytes := range map[string]int64{
		"/os-release": 10, "../large": -int64(syscall.ENOENT), "/proc/version": -int64(syscall.ENOENT),
	} {
		at, err := instance.Give([]byte(path + "\000"))
		if err != nil {
			t.Fatal(err)
		}
		if n := call(t, instance, "count", at); n != bytes {
			t.Error(path, n)
		}
	}
	jailed := open(t, image(t), nil)
	_, err = testModule(t).Instance(&InstanceOptions{FS: jailed, Imports: map[string]Import{"twice": twice}})
	if !errors.Is(err, syscall.EOPNOTSUPP) {
		t.Error(err)
	}
}
