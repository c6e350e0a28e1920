// SPDX-License-Identifier: GPL-2.0-only

package tane

/*
#include <stdlib.h>
#include <tane.h>
*/
import "C"

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"unsafe"
)

// C's types are a file's own.
func cInt(value int) C.int { return C.int(value) }

// LookupHost gives the addresses of a name in the kernel's network, those of IPv4 first: by its
// /etc/hosts and the resolvers of its /etc/resolv.conf, which are the host's with [Network.User].
// Errors are a *[net.DNSError].
func (n *Network) LookupHost(ctx context.Context, name string) ([]string, error) {
	type answer struct {
		found []string
		err   error
	}
	if name == "" {
		return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
	}
	answers := make(chan answer, 1)
	go func() {
		found, err := n.lookup(name)
		answers <- answer{found, err}
	}()
	select {
	case answer := <-answers:
		return answer.found, answer.err
	case <-ctx.Done():
		err := ctx.Err()
		return nil, &net.DNSError{
			Err: err.Error(), Name: name, IsTimeout: errors.Is(err, context.DeadlineExceeded),
		}
	}
}

func (n *Network) lookup(name string) ([]string, error) {
	var memory arena
	defer memory.free()
	const size = 4096
	room := (*C.char)(memory.get(size))
	length := C.int64_t(0)
	err := explained(func() C.int {
		length = C.tane_lookup(n.kernel.handle, memory.text(name), room, size)
		return C.int(length)
	})
	var failed *Error
	if errors.As(err, &failed) {
		return nil, &net.DNSError{
			Err: failed.Text, Name: name,
			IsNotFound:  failed.Errno == syscall.ENOENT,
			IsTimeout:   failed.Errno == syscall.ETIMEDOUT,
			IsTemporary: failed.Errno == syscall.EAGAIN,
		}
	}
	texts := string(unsafe.Slice((*byte)(unsafe.Pointer(room)), int(length)))
	return strings.Split(strings.TrimSuffix(texts, "\x00"), "\x00"), nil
}

// resolve gives the addresses of "HOST:PORT" that the network has.
func (n *Network) resolve(
	ctx context.Context, network, address string,
) ([]netip.AddrPort, error) {
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, ported(network), service)
	if err != nil {
		return nil, err
	}
	if host == "" {
		// As package net has it: this machine.
		host = "localhost"
	}
	texts, err := n.LookupHost(ctx, host)
	if err != nil {
		return nil, err
	}
	var all []netip.AddrPort
	for _, text := range texts {
		ip, err := netip.ParseAddr(text)
		if err == nil && wants(network, ip) {
			all = append(all, netip.AddrPortFrom(ip.Unmap(), uint16(port)))
		}
	}
	if len(all) == 0 {
		return nil, &net.AddrError{Err: "no suitable address found", Addr: host}
	}
	return all, nil
}
