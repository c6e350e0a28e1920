// SPDX-License-Identifier: GPL-2.0-only

package tane

/*
#include <stdlib.h>
#include <tane.h>
*/
import "C"

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// socket is one of the kernel's. It waits by a descriptor of the host's that is ready when it
// is, which Go's scheduler has as it has its own: goroutines wait without a thread, deadlines
// are the scheduler's, and closing ends all waiting.
type socket struct {
	kernel *Kernel
	file   *os.File
	raw    syscall.RawConn
	// Calls in C are short, as none waits; closing waits for them.
	mutex  sync.RWMutex
	handle *C.struct_tane_socket
}

const nameSize = 28

// Package syscall has it not.
const ipprotoMPTCP = 262

// sockaddr is an address as Linux has it.
func sockaddr(to netip.AddrPort) []byte {
	name := make([]byte, nameSize)
	binary.BigEndian.PutUint16(name[2:], to.Port())
	ip := to.Addr()
	if ip.Is4() || ip.Is4In6() {
		binary.LittleEndian.PutUint16(name, syscall.AF_INET)
		four := ip.As4()
		copy(name[4:], four[:])
		return name[:16]
	}
	binary.LittleEndian.PutUint16(name, syscall.AF_INET6)
	sixteen := ip.As16()
	copy(name[8:], sixteen[:])
	return name
}

func addrPort(name []byte) netip.AddrPort {
	port := binary.BigEndian.Uint16(name[2:])
	switch binary.LittleEndian.Uint16(name) {
	case syscall.AF_INET:
		ip, _ := netip.AddrFromSlice(name[4:8])
		return netip.AddrPortFrom(ip, port)
	case syscall.AF_INET6:
		ip, _ := netip.AddrFromSlice(name[8:24])
		return netip.AddrPortFrom(ip, port)
	}
	return netip.AddrPort{}
}

func failure(result C.int64_t) error {
	if result < 0 {
		return syscall.Errno(-result)
	}
	return nil
}

func newSocket(kernel *Kernel, family, kind, protocol int) (*socket, error) {
	var handle *C.struct_tane_socket
	err := failure(C.int64_t(C.tane_socket(kernel.handle, C.int(family),
		C.int(kind|syscall.SOCK_NONBLOCK), C.int(protocol), &handle)))
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	return own(kernel, handle)
}

// own has the scheduler wait for it.
func own(kernel *Kernel, handle *C.struct_tane_socket) (*socket, error) {
	fail := func(call string, err error) (*socket, error) {
		C.tane_socket_close(handle)
		return nil, os.NewSyscallError(call, err)
	}
	shown := C.tane_socket_poll_fd(handle)
	if shown < 0 {
		return fail("watch", syscall.Errno(-shown))
	}
	// The file closes what it has.
	syscall.ForkLock.RLock()
	fd, err := syscall.Dup(int(shown))
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return fail("dup", err)
	}
	file := os.NewFile(uintptr(fd), "socket")
	raw, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return fail("watch", err)
	}
	s := &socket{kernel: kernel, file: file, raw: raw, handle: handle}
	runtime.SetFinalizer(s, (*socket).close)
	return s, nil
}

// call makes a call that does not wait.
func (s *socket) call(call func(*C.struct_tane_socket) C.int64_t) (int, error) {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	if s.handle == nil {
		return 0, net.ErrClosed
	}
	result := call(s.handle)
	return int(result), failure(result)
}

// wait makes a call until it does not have to wait, by one of the raw connection's two.
func (s *socket) wait(
	by func(func(uintptr) bool) error, call func(*C.struct_tane_socket) C.int64_t,
) (n int, err error) {
	waited := by(func(uintptr) bool {
		n, err = s.call(call)
		return err != syscall.EAGAIN
	})
	if waited != nil {
		if errors.Is(waited, os.ErrDeadlineExceeded) {
			return 0, os.ErrDeadlineExceeded
		}
		return 0, net.ErrClosed
	}
	if err != nil {
		return 0, err
	}
	return n, nil
}

func (s *socket) receive(p []byte, name *[nameSize]byte) (int, netip.AddrPort, error) {
	size := C.size_t(len(p))
	if size == 0 {
		p = make([]byte, 1)
	}
	// Of an element's address, cgo looks at the slice alone, and not at all that it is in.
	n, err := s.wait(s.raw.Read, func(handle *C.struct_tane_socket) C.int64_t {
		if name == nil {
			return C.tane_recvfrom(handle, unsafe.Pointer(&p[0]), size, 0, nil, nil)
		}
		length := C.uint32_t(nameSize)
		return C.tane_recvfrom(handle, unsafe.Pointer(&p[0]), size, 0,
			unsafe.Pointer(name), &length)
	})
	if err != nil || name == nil {
		return n, netip.AddrPort{}, err
	}
	return n, addrPort(name[:]), nil
}

func (s *socket) send(p []byte, name []byte) (int, error) {
	size := C.size_t(len(p))
	if size == 0 {
		p = make([]byte, 1)
	}
	return s.wait(s.raw.Write, func(handle *C.struct_tane_socket) C.int64_t {
		if len(name) == 0 {
			return C.tane_sendto(handle, unsafe.Pointer(&p[0]), size, 0, nil, 0)
		}
		return C.tane_sendto(handle, unsafe.Pointer(&p[0]), size, 0,
			unsafe.Pointer(&name[0]), C.uint32_t(len(name)))
	})
}

func (s *socket) bind(at netip.AddrPort) error {
	name := sockaddr(at)
	_, err := s.call(func(handle *C.struct_tane_socket) C.int64_t {
		return C.int64_t(C.tane_bind(handle, unsafe.Pointer(&name[0]), C.uint32_t(len(name))))
	})
	return os.NewSyscallError("bind", err)
}

func (s *socket) listen() error {
	_, err := s.call(func(handle *C.struct_tane_socket) C.int64_t {
		return C.int64_t(C.tane_listen(handle, 4096))
	})
	return os.NewSyscallError("listen", err)
}

// connect waits until it is, has failed, or is given up by a deadline or by closing.
func (s *socket) connect(to netip.AddrPort) error {
	name := sockaddr(to)
	_, err := s.call(func(handle *C.struct_tane_socket) C.int64_t {
		return C.int64_t(C.tane_connect(handle, unsafe.Pointer(&name[0]), C.uint32_t(len(name))))
	})
	if err == syscall.EINPROGRESS {
		_, err = s.wait(s.raw.Write, func(handle *C.struct_tane_socket) C.int64_t {
			var failed C.int
			size := C.uint32_t(unsafe.Sizeof(failed))
			result := C.tane_getsockopt(handle, syscall.SOL_SOCKET, syscall.SO_ERROR,
				unsafe.Pointer(&failed), &size)
			if result != 0 || failed != 0 {
				return C.int64_t(result - failed)
			}
			var name [nameSize]byte
			size = nameSize
			result = C.tane_getpeername(handle, unsafe.Pointer(&name), &size)
			if result == -C.int(syscall.ENOTCONN) {
				result = -C.int(syscall.EAGAIN)
			}
			return C.int64_t(result)
		})
	}
	if _, isErrno := err.(syscall.Errno); isErrno {
		return os.NewSyscallError("connect", err)
	}
	return err
}

func (s *socket) accept() (*socket, error) {
	var accepted *C.struct_tane_socket
	_, err := s.wait(s.raw.Read, func(handle *C.struct_tane_socket) C.int64_t {
		return C.int64_t(C.tane_accept(handle, nil, nil, syscall.SOCK_NONBLOCK, &accepted))
	})
	if err != nil {
		return nil, err
	}
	return own(s.kernel, accepted)
}

func (s *socket) set(level, option int, value C.int) error {
	_, err := s.call(func(handle *C.struct_tane_socket) C.int64_t {
		return C.int64_t(C.tane_setsockopt(handle, C.int(level), C.int(option),
			unsafe.Pointer(&value), C.uint32_t(unsafe.Sizeof(value))))
	})
	return os.NewSyscallError("setsockopt", err)
}

func (s *socket) shutdown(how int) error {
	_, err := s.call(func(handle *C.struct_tane_socket) C.int64_t {
		return C.int64_t(C.tane_shutdown(handle, C.int(how)))
	})
	return os.NewSyscallError("shutdown", err)
}

func (s *socket) local() netip.AddrPort {
	var name [nameSize]byte
	size := C.uint32_t(nameSize)
	s.call(func(handle *C.struct_tane_socket) C.int64_t {
		return C.int64_t(C.tane_getsockname(handle, unsafe.Pointer(&name), &size))
	})
	return addrPort(name[:])
}

func (s *socket) peer() netip.AddrPort {
	var name [nameSize]byte
	size := C.uint32_t(nameSize)
	s.call(func(handle *C.struct_tane_socket) C.int64_t {
		return C.int64_t(C.tane_getpeername(handle, unsafe.Pointer(&name), &size))
	})
	return addrPort(name[:])
}

func (s *socket) close() error {
	runtime.SetFinalizer(s, nil)
	// Who waits is told, and makes no more calls.
	s.file.Close()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.handle == nil {
		return net.ErrClosed
	}
	C.tane_socket_close(s.handle)
	s.handle = nil
	return nil
}

func (s *socket) SetDeadline(t time.Time) error      { return closed(s.file.SetDeadline(t)) }
func (s *socket) SetReadDeadline(t time.Time) error  { return closed(s.file.SetReadDeadline(t)) }
func (s *socket) SetWriteDeadline(t time.Time) error { return closed(s.file.SetWriteDeadline(t)) }

// closed says it as package net does.
func closed(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return net.ErrClosed
	}
	return err
}
