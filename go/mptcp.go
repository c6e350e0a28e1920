// SPDX-License-Identifier: GPL-2.0-only

package tane

/*
#include <stdlib.h>
#include <tane.h>
*/
import "C"

import (
	"net/netip"
	"runtime"
	"time"
	"unsafe"
)

// The kernel has no more endpoints, and a connection no more paths.
const (
	mostEndpoints = 8
	mostPaths     = 9
)

// MPTCP says which addresses a kernel's connections over several paths may take, as `ip mptcp`
// does. Such connections are those of the networks mptcp, mptcp4 and mptcp6 of
// [Network.DialContext] and [Network.Listen]; [Conn.MPTCPInfo] says which paths they take.
// Its methods say EPROTONOSUPPORT if the kernel's image has no MPTCP, as default has.
type MPTCP struct {
	kernel *Kernel
}

// MPTCP is the kernel's.
func (n *Network) MPTCP() *MPTCP { return &MPTCP{kernel: n.kernel} }

// Endpoint is an address that connections may take.
type Endpoint struct {
	// ID is the kernel's number for it, from 1; not to be said.
	ID int
	// Address is the address.
	Address netip.Addr
	// Link is the [Link.Index] of the interface that it is bound to; 0 is none. Not to be said.
	Link int
	// Signal tells the other end of it, which may begin further paths to it.
	Signal bool
	// Subflow has connections begin further paths from it.
	Subflow bool
	// Backup has its paths be taken when there are no others.
	Backup bool
	// Fullmesh has connections begin paths from it to all addresses of the other end that are
	// known; not with Signal.
	Fullmesh bool
	// Implicit says that the kernel found it by itself, of a path that the other end began; not
	// to be said.
	Implicit bool
}

// MPTCPLimits are how many paths a connection may have, at most 8 each.
type MPTCPLimits struct {
	// Subflows are those beside the first one: 2 in a new kernel.
	Subflows int
	// Accepted are those to addresses of which the other end tells: 0 in a new kernel.
	Accepted int
}

func (e *Endpoint) bits() C.uint32_t {
	bits := C.uint32_t(0)
	for _, flag := range []struct {
		is  bool
		bit C.uint32_t
	}{
		{e.Signal, C.TANE_MPTCP_SIGNAL}, {e.Subflow, C.TANE_MPTCP_SUBFLOW},
		{e.Backup, C.TANE_MPTCP_BACKUP}, {e.Fullmesh, C.TANE_MPTCP_FULLMESH},
	} {
		if flag.is {
			bits |= flag.bit
		}
	}
	return bits
}

// AddEndpoint has connections take an address, those that there are already, too. Ways from there
// are those of the kernel's routes.
func (m *MPTCP) AddEndpoint(endpoint Endpoint) error {
	return m.add(&endpoint, "")
}

// AddEndpointAt does the same, and what goes from there goes by this interface, where there is a
// route by it ([Link.AddRoute]).
func (m *MPTCP) AddEndpointAt(link *Link, endpoint Endpoint) error {
	return m.add(&endpoint, link.name)
}

func (m *MPTCP) add(endpoint *Endpoint, link string) error {
	var memory arena
	defer memory.free()
	return explained(func() C.int {
		return C.tane_mptcp_add_endpoint(m.kernel.handle, memory.text(link),
			memory.text(endpoint.Address.String()), endpoint.bits())
	})
}

// RemoveEndpoint has connections take it no longer, by its ID; paths that do end. EINVAL: there is
// none.
func (m *MPTCP) RemoveEndpoint(id int) error {
	return explained(func() C.int {
		return C.tane_mptcp_remove_endpoint(m.kernel.handle, C.uint32_t(id))
	})
}

// Clear removes all of them.
func (m *MPTCP) Clear() error {
	return explained(func() C.int { return C.tane_mptcp_clear(m.kernel.handle) })
}

// Endpoints are all there are, by their numbers.
func (m *MPTCP) Endpoints() ([]Endpoint, error) {
	var found [mostEndpoints]C.struct_tane_mptcp_endpoint
	count := C.int64_t(0)
	err := explained(func() C.int {
		count = C.tane_mptcp_endpoints(m.kernel.handle, &found[0], mostEndpoints)
		return C.int(count)
	})
	if err != nil {
		return nil, err
	}
	endpoints := make([]Endpoint, count)
	for i := range endpoints {
		raw := &found[i]
		address, err := netip.ParseAddr(C.GoString(&raw.address[0]))
		if err != nil {
			return nil, err
		}
		endpoints[i] = Endpoint{
			ID: int(raw.id), Address: address, Link: int(raw.link),
			Signal:   raw.flags&C.TANE_MPTCP_SIGNAL != 0,
			Subflow:  raw.flags&C.TANE_MPTCP_SUBFLOW != 0,
			Backup:   raw.flags&C.TANE_MPTCP_BACKUP != 0,
			Fullmesh: raw.flags&C.TANE_MPTCP_FULLMESH != 0,
			Implicit: raw.flags&C.TANE_MPTCP_IMPLICIT != 0,
		}
	}
	return endpoints, nil
}

// Limits are how many paths connections may have.
func (m *MPTCP) Limits() (MPTCPLimits, error) {
	var subflows, accepted C.uint32_t
	err := explained(func() C.int {
		return C.tane_mptcp_limits(m.kernel.handle, &subflows, &accepted)
	})
	return MPTCPLimits{Subflows: int(subflows), Accepted: int(accepted)}, err
}

// SetLimits lets connections have so many. EINVAL: more than 8.
func (m *MPTCP) SetLimits(limits MPTCPLimits) error {
	return explained(func() C.int {
		return C.tane_mptcp_set_limits(m.kernel.handle, C.uint32_t(limits.Subflows),
			C.uint32_t(limits.Accepted))
	})
}

// MPTCPInfo is what MPTCP says of a connection at one time.
type MPTCPInfo struct {
	// BytesSent counts bytes that were sent, again ones included.
	BytesSent uint64
	// BytesRetransmitted counts those of them that were sent again by another path.
	BytesRetransmitted uint64
	// BytesAcked counts bytes that the other end has acknowledged.
	BytesAcked uint64
	// BytesReceived counts bytes that came and were new.
	BytesReceived uint64
	// Subflows are its paths as they are now.
	Subflows []Subflow
}

// Subflow is a path of a connection, which is a connection of TCP's, and what that says of it.
type Subflow struct {
	// ID is a number that no other path of this connection has or had.
	ID int
	// Local and Remote are its ends here and there.
	Local, Remote netip.AddrPort
	// RTT is the round trip's time, smoothed; MinRTT the shortest one of late.
	RTT, MinRTT time.Duration
	// CongestionWindow is in segments.
	CongestionWindow int
	// Retransmits counts segments that were sent again.
	Retransmits int
	// BytesSent, BytesAcked and BytesReceived count as those of [MPTCPInfo].
	BytesSent, BytesAcked, BytesReceived uint64
	// DeliveryRate is how fast it was lately delivered, in bytes a second.
	DeliveryRate uint64
}

// MPTCPInfo says which paths the connection takes, and what went by each. EOPNOTSUPP or
// ENOPROTOOPT: it is of another kind, or went on by TCP alone, as the other end has no MPTCP.
func (c *Conn) MPTCPInfo() (MPTCPInfo, error) {
	var raw C.struct_tane_mptcp_info
	var paths [mostPaths]C.struct_tane_mptcp_path
	raw.size = C.sizeof_struct_tane_mptcp_info
	count, err := c.call(func(handle *C.struct_tane_socket) C.int64_t {
		return C.tane_mptcp_info(handle, &raw, &paths[0], mostPaths)
	})
	runtime.KeepAlive(c)
	if err != nil {
		return MPTCPInfo{}, c.fail("ask", err)
	}
	info := MPTCPInfo{
		BytesSent: uint64(raw.bytes_sent), BytesRetransmitted: uint64(raw.bytes_retransmitted),
		BytesAcked: uint64(raw.bytes_acked), BytesReceived: uint64(raw.bytes_received),
	}
	for i := range paths[:count] {
		info.Subflows = append(info.Subflows, subflow(&paths[i]))
	}
	return info, nil
}

func subflow(raw *C.struct_tane_mptcp_path) Subflow {
	end := func(field *[64]C.char) netip.AddrPort {
		// The library wrote it.
		at, _ := netip.ParseAddrPort(C.GoString((*C.char)(unsafe.Pointer(field))))
		return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	}
	return Subflow{
		ID: int(raw.id), Local: end(&raw.local), Remote: end(&raw.remote),
		RTT:              time.Duration(raw.rtt) * time.Microsecond,
		MinRTT:           time.Duration(raw.min_rtt) * time.Microsecond,
		CongestionWindow: int(raw.congestion_window), Retransmits: int(raw.retransmits),
		BytesSent: uint64(raw.bytes_sent), BytesAcked: uint64(raw.bytes_acked),
		BytesReceived: uint64(raw.bytes_received), DeliveryRate: uint64(raw.delivery_rate),
	}
}
