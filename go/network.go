// SPDX-License-Identifier: GPL-2.0-only

package tane

/*
#include <stdlib.h>
#include <tane.h>
*/
import "C"

import (
	"net/netip"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// Network is what a kernel of [Boot] has for a network: interfaces, addresses, names, and
// connections as package net has the host's ([Network.DialContext], [Network.Listen]). Any
// goroutine may use it.
type Network struct {
	kernel *Kernel
}

// Network is the kernel's. A new kernel has the interface "lo" alone, which is down.
// [Network.User] joins it to the host's network, [Network.Pair] to another kernel.
func (k *Kernel) Network() *Network { return &Network{kernel: k} }

// Nic is an interface of a kernel's that is there until it is closed.
type Nic struct {
	handle *C.struct_tane_nic
	kernel *Kernel
}

// NicOptions are what a card is made with. The zero value is the default.
type NicOptions struct {
	// MTU is the largest IP packet, in bytes; 1500 if 0.
	MTU int
	// MAC is its Ethernet address; one that no other card here has if nil.
	MAC []byte
	// Capture is a file of the host's that gets all packets, as pcapng.
	Capture string
	// Plain has all packets be as on a cable: no large segments, no open checksums.
	Plain bool
}

// UserNetwork is what a kernel may reach of the host's network, and the host of it. Its lists say
// what docs/net.md has. The zero value is all of the host's network but what is the host's alone.
type UserNetwork struct {
	// Allow has what may be reached: "10.0.0.0/8", "*.example.com:443", "host:5432".
	Allow []string
	// Deny has what may not, whatever is allowed.
	Deny []string
	// Forwards are ports of the host's that lead inside: "8080:80". Port 0 is any that is
	// free: [Nic.Port].
	Forwards []string
	// Resolvers are asked for names; those of the host if nil.
	Resolvers []string
}

func (o *NicOptions) given(memory *arena) *C.struct_tane_nic_options {
	given := (*C.struct_tane_nic_options)(memory.get(C.sizeof_struct_tane_nic_options))
	given.size = C.sizeof_struct_tane_nic_options
	if o == nil {
		return given
	}
	given.mtu = C.uint32_t(o.MTU)
	if o.Plain {
		given.flags = C.TANE_NIC_PLAIN
	}
	if len(o.MAC) == 6 {
		mac := memory.get(6)
		copy(unsafe.Slice((*byte)(mac), 6), o.MAC)
		given.mac = (*C.uint8_t)(mac)
	}
	if o.Capture != "" {
		given.capture = memory.text(o.Capture)
	}
	return given
}

func (o *NicOptions) check() error {
	if o != nil && o.MAC != nil && len(o.MAC) != 6 {
		return &Error{Errno: syscall.EINVAL, Text: "an Ethernet address has six bytes"}
	}
	return nil
}

func (n *Network) nic(
	options *NicOptions, make func(*arena, **C.struct_tane_nic) C.int,
) (*Nic, error) {
	if err := options.check(); err != nil {
		return nil, err
	}
	var memory arena
	defer memory.free()
	nic := &Nic{kernel: n.kernel}
	to := (**C.struct_tane_nic)(memory.get(C.size_t(unsafe.Sizeof(nic.handle))))
	if err := explained(func() C.int { return make(&memory, to) }); err != nil {
		return nil, err
	}
	nic.handle = *to
	runtime.SetFinalizer(nic, (*Nic).Close)
	return nic, nil
}

// User lets the kernel use the host's network, through sockets of this process: TCP, UDP and
// names. Its interface is up and has its addresses. options may be nil.
func (n *Network) User(options *UserNetwork) (*Nic, error) {
	if options == nil {
		options = &UserNetwork{}
	}
	return n.nic(nil, func(memory *arena, to **C.struct_tane_nic) C.int {
		given := (*C.struct_tane_user_network)(memory.get(C.sizeof_struct_tane_user_network))
		given.size = C.sizeof_struct_tane_user_network
		given.allow = memory.list(options.Allow)
		given.deny = memory.list(options.Deny)
		given.forwards = memory.list(options.Forwards)
		given.resolvers = memory.list(options.Resolvers)
		return C.tane_nic_user(n.kernel.handle, given, to)
	})
}

// Pair joins two kernels by a wire: a card in this one, and one in the other. Their interfaces
// are down, and without addresses. options may be nil.
func (n *Network) Pair(other *Network, options *NicOptions) (*Nic, *Nic, error) {
	there := &Nic{kernel: other.kernel}
	here, err := n.nic(options, func(memory *arena, to **C.struct_tane_nic) C.int {
		second := (**C.struct_tane_nic)(memory.get(C.size_t(unsafe.Sizeof(there.handle))))
		given := options.given(memory)
		result := C.tane_nic_pair(n.kernel.handle, other.kernel.handle, given, to, second)
		there.handle = *second
		return result
	})
	if err != nil {
		return nil, nil, err
	}
	runtime.SetFinalizer(there, (*Nic).Close)
	return here, there, nil
}

// Tap gives the kernel a card at a tap interface of the host's; "" is a new one.
func (n *Network) Tap(name string, options *NicOptions) (*Nic, error) {
	return n.nic(options, func(memory *arena, to **C.struct_tane_nic) C.int {
		given := options.given(memory)
		var which *C.char
		if name != "" {
			which = memory.text(name)
		}
		return C.tane_nic_tap(n.kernel.handle, which, given, to)
	})
}

// Stream gives it one at a Unix socket of the host's on which frames stand behind their
// lengths, as passt and QEMU have it. The file may be closed then.
func (n *Network) Stream(socket *os.File, options *NicOptions) (*Nic, error) {
	defer runtime.KeepAlive(socket)
	return n.nic(options, func(memory *arena, to **C.struct_tane_nic) C.int {
		return C.tane_nic_stream(n.kernel.handle, C.int(socket.Fd()), options.given(memory), to)
	})
}

// Datagram is the same at one on which each frame is a datagram.
func (n *Network) Datagram(socket *os.File, options *NicOptions) (*Nic, error) {
	defer runtime.KeepAlive(socket)
	return n.nic(options, func(memory *arena, to **C.struct_tane_nic) C.int {
		return C.tane_nic_datagram(n.kernel.handle, C.int(socket.Fd()), options.given(memory), to)
	})
}

// Name is the kernel's name of the interface, such as eth0.
func (n *Nic) Name() string {
	defer runtime.KeepAlive(n)
	if n.handle == nil {
		return ""
	}
	return C.GoString(C.tane_nic_interface(n.handle))
}

// Link is the interface, for what is done by its name.
func (n *Nic) Link() *Link { return n.kernel.Network().Link(n.Name()) }

// Port is where the host listens for the forward of this number, from 0; 0 if there is none.
func (n *Nic) Port(number int) int {
	defer runtime.KeepAlive(n)
	if port := C.tane_nic_port(n.handle, C.size_t(number)); port > 0 {
		return int(port)
	}
	return 0
}

// Flush writes what the capture has in its buffer.
func (n *Nic) Flush() error {
	defer runtime.KeepAlive(n)
	return explained(func() C.int { return C.tane_nic_flush(n.handle) })
}

// Close takes the interface away, and what goes through it. Closing twice does no harm.
func (n *Nic) Close() error {
	runtime.SetFinalizer(n, nil)
	C.tane_nic_close(n.handle)
	n.handle = nil
	return nil
}

// Link is an interface of a kernel's, by its name.
type Link struct {
	kernel *Kernel
	name   string
}

// Link is the interface of this name, "lo" or "eth0". Its methods say ENODEV if there is none.
func (n *Network) Link(name string) *Link { return &Link{kernel: n.kernel, name: name} }

func (l *Link) do(call func(*arena, *C.char) C.int) error {
	var memory arena
	defer memory.free()
	return explained(func() C.int { return call(&memory, memory.text(l.name)) })
}

// Up has it send and receive.
func (l *Link) Up() error {
	return l.do(func(_ *arena, name *C.char) C.int {
		return C.tane_link_up(l.kernel.handle, name)
	})
}

// Down has it send and receive nothing.
func (l *Link) Down() error {
	return l.do(func(_ *arena, name *C.char) C.int {
		return C.tane_link_down(l.kernel.handle, name)
	})
}

// SetMTU sets its largest IP packet, in bytes: at most what its card was made with.
func (l *Link) SetMTU(mtu int) error {
	return l.do(func(_ *arena, name *C.char) C.int {
		return C.tane_link_mtu(l.kernel.handle, name, C.uint32_t(mtu))
	})
}

// AddAddress gives it an address, in a network of so many bits.
func (l *Link) AddAddress(address netip.Prefix) error {
	return l.do(func(memory *arena, name *C.char) C.int {
		return C.tane_link_add_address(l.kernel.handle, name, memory.text(address.String()))
	})
}

// RemoveAddress takes one away.
func (l *Link) RemoveAddress(address netip.Prefix) error {
	return l.do(func(memory *arena, name *C.char) C.int {
		return C.tane_link_remove_address(l.kernel.handle, name, memory.text(address.String()))
	})
}

// IsRunning says whether it is up and somebody is at the other end.
func (l *Link) IsRunning() (bool, error) {
	running := C.int(0)
	err := l.do(func(_ *arena, name *C.char) C.int {
		running = C.tane_link_is_running(l.kernel.handle, name)
		return running
	})
	return running == 1, err
}

// Index is the kernel's number for it.
func (l *Link) Index() (int, error) {
	index := C.int(0)
	err := l.do(func(_ *arena, name *C.char) C.int {
		index = C.tane_link_index(l.kernel.handle, name)
		return index
	})
	return int(index), err
}

// AddRoute sends what is for a network by way of a gateway by this interface, as far as no way with
// a smaller metric serves, as those of [Network.AddRoute] have (0). What is bound to the interface
// takes it in any case.
func (l *Link) AddRoute(network netip.Prefix, gateway netip.Addr, metric int) error {
	return l.do(func(memory *arena, name *C.char) C.int {
		return C.tane_link_add_route(l.kernel.handle, name, memory.text(network.String()),
			memory.text(gateway.String()), C.uint32_t(metric))
	})
}

// Impair has what it sends be late, lost, cut to a rate and so on, as tc-netem(8) does:
// "delay=100ms,jitter=5ms,loss=1%,duplicate=1%,corrupt=1%,rate=2mbit,limit=1000,seed=7", or some of
// these; "" as it is again.
func (l *Link) Impair(how string) error {
	return l.do(func(memory *arena, name *C.char) C.int {
		return C.tane_link_impair(l.kernel.handle, name, memory.text(how))
	})
}

// AddRoute sends what is for a network by way of a gateway.
func (n *Network) AddRoute(network netip.Prefix, gateway netip.Addr) error {
	var memory arena
	defer memory.free()
	return explained(func() C.int {
		return C.tane_route_add(n.kernel.handle, memory.text(network.String()),
			memory.text(gateway.String()))
	})
}
