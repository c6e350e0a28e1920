// SPDX-License-Identifier: GPL-2.0-only

package tane

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"
)

// Conn is a connection by TCP or MPTCP of a kernel's, or a UDP socket that is connected: a [net.Conn].
// Errors are a *[net.OpError], deadlines are those of package net.
type Conn struct {
	*socket
	network       string
	local, remote net.Addr
}

func addr(network string, of netip.AddrPort) net.Addr {
	if network[:3] == "udp" {
		return net.UDPAddrFromAddrPort(of)
	}
	return net.TCPAddrFromAddrPort(of)
}

func newConn(s *socket, network string) *Conn {
	return &Conn{
		socket: s, network: network,
		local: addr(network, s.local()), remote: addr(network, s.peer()),
	}
}

func (c *Conn) fail(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return &net.OpError{Op: op, Net: c.network, Source: c.local, Addr: c.remote, Err: err}
}

// Read reads what has come, and waits if that is nothing.
func (c *Conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, _, err := c.receive(p, nil)
	if n == 0 && err == nil && c.network[:3] != "udp" {
		return 0, io.EOF
	}
	return n, c.fail("read", err)
}

// Write sends all of it; a UDP socket as one datagram.
func (c *Conn) Write(p []byte) (int, error) {
	done := 0
	for {
		n, err := c.send(p[done:], nil)
		done += n
		if err != nil || done == len(p) {
			return done, c.fail("write", err)
		}
	}
}

// CloseRead ends one direction: nothing is read any more.
func (c *Conn) CloseRead() error { return c.fail("close", c.shutdown(syscall.SHUT_RD)) }

// CloseWrite ends the other: the peer reads what was sent, and then an end.
func (c *Conn) CloseWrite() error { return c.fail("close", c.shutdown(syscall.SHUT_WR)) }

// SetNoDelay says whether small pieces are sent at once, which they are.
func (c *Conn) SetNoDelay(yes bool) error {
	value := 0
	if yes {
		value = 1
	}
	return c.fail("set", c.set(syscall.IPPROTO_TCP, syscall.TCP_NODELAY, cInt(value)))
}

// Close ends the connection, and all waiting for it.
func (c *Conn) Close() error { return c.fail("close", c.close()) }

// LocalAddr is this end's address.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr is the other end's.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// Listener waits for connections by TCP or MPTCP to a kernel: a [net.Listener].
type Listener struct {
	*socket
	network string
	at      net.Addr
}

// Accept gives the next connection.
func (l *Listener) Accept() (net.Conn, error) {
	s, err := l.accept()
	if err != nil {
		return nil, &net.OpError{Op: "accept", Net: l.network, Addr: l.at, Err: err}
	}
	conn := newConn(s, l.network)
	conn.SetNoDelay(true)
	return conn, nil
}

// Close ends it, and all waiting for it.
func (l *Listener) Close() error {
	if err := l.close(); err != nil {
		return &net.OpError{Op: "close", Net: l.network, Addr: l.at, Err: err}
	}
	return nil
}

// Addr is its address.
func (l *Listener) Addr() net.Addr { return l.at }

// PacketConn is a UDP socket of a kernel's: a [net.PacketConn].
type PacketConn struct {
	*socket
	network string
	at      net.Addr
}

func (p *PacketConn) fail(op string, to net.Addr, err error) error {
	if err == nil {
		return nil
	}
	return &net.OpError{Op: op, Net: p.network, Source: p.at, Addr: to, Err: err}
}

// ReadFrom gives a datagram, and where it comes from. What does not fit is lost.
func (p *PacketConn) ReadFrom(b []byte) (int, net.Addr, error) {
	var name [nameSize]byte
	n, from, err := p.receive(b, &name)
	if err != nil {
		return n, nil, p.fail("read", nil, err)
	}
	return n, net.UDPAddrFromAddrPort(from), nil
}

// WriteTo sends a datagram to an address, which is a *[net.UDPAddr].
func (p *PacketConn) WriteTo(b []byte, to net.Addr) (int, error) {
	udp, ok := to.(*net.UDPAddr)
	if !ok {
		return 0, p.fail("write", to, syscall.EINVAL)
	}
	n, err := p.send(b, sockaddr(udp.AddrPort()))
	return n, p.fail("write", to, err)
}

// Close ends it, and all waiting for it.
func (p *PacketConn) Close() error { return p.fail("close", nil, p.close()) }

// LocalAddr is its address.
func (p *PacketConn) LocalAddr() net.Addr { return p.at }

// wants says whether a network, such as "tcp4", has addresses of this kind.
func wants(network string, ip netip.Addr) bool {
	switch network[len(network)-1] {
	case '4':
		return ip.Unmap().Is4()
	case '6':
		return !ip.Unmap().Is4()
	}
	return true
}

func kindOf(network string) (int, error) {
	switch network {
	case "tcp", "tcp4", "tcp6", "mptcp", "mptcp4", "mptcp6":
		return syscall.SOCK_STREAM, nil
	case "udp", "udp4", "udp6":
		return syscall.SOCK_DGRAM, nil
	}
	return 0, net.UnknownNetworkError(network)
}

// ported is the network that has these ports.
func ported(network string) string { return strings.TrimPrefix(network, "mp") }

func (n *Network) opened(network string, kind int, at netip.AddrPort) (*socket, error) {
	family := syscall.AF_INET6
	if at.Addr().Unmap().Is4() {
		family = syscall.AF_INET
	}
	protocol := 0
	if strings.HasPrefix(network, "mptcp") {
		protocol = ipprotoMPTCP
	}
	return newSocket(n.kernel, family, kind, protocol)
}

// Dial is [Network.DialContext] without an end.
func (n *Network) Dial(network, address string) (net.Conn, error) {
	return n.DialContext(context.Background(), network, address)
}

// DialContext connects from the kernel: to the first address of the name's that answers. Networks
// are tcp, mptcp (several paths: [MPTCP]), udp and these with 4 or 6. It is what [net/http.Transport] has a field for.
func (n *Network) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	fail := func(to net.Addr, err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: to, Err: err}
	}
	kind, err := kindOf(network)
	if err != nil {
		return fail(nil, err)
	}
	all, err := n.resolve(ctx, network, address)
	if err != nil {
		return fail(nil, err)
	}
	var first error
	for _, to := range all {
		s, err := n.opened(network, kind, to)
		if err == nil {
			if err = s.connectContext(ctx, to); err == nil {
				conn := newConn(s, network)
				if kind == syscall.SOCK_STREAM {
					conn.SetNoDelay(true)
				}
				return conn, nil
			}
			s.close()
		}
		if first == nil {
			_, first = fail(addr(network, to), err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, first
}

// connectContext gives up when the context does.
func (s *socket) connectContext(ctx context.Context, to netip.AddrPort) error {
	if deadline, has := ctx.Deadline(); has {
		s.SetWriteDeadline(deadline)
	}
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-ctx.Done():
			s.SetWriteDeadline(time.Unix(1, 0))
		case <-over:
		}
	}()
	err := s.connect(to)
	close(over)
	<-ended
	cause := ctx.Err()
	// The scheduler's clock may be ahead of the context's.
	if errors.Is(cause, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) && cause == nil {
		return &timeout{}
	}
	if cause != nil {
		return cause
	}
	if err == nil {
		s.SetWriteDeadline(time.Time{})
	}
	return err
}

// timeout is what package net says of a context's deadline.
type timeout struct{}

func (*timeout) Error() string     { return "i/o timeout" }
func (*timeout) Timeout() bool     { return true }
func (*timeout) Temporary() bool   { return true }
func (*timeout) Is(err error) bool { return err == context.DeadlineExceeded }

// Listen waits for connections at an address of the kernel's: "127.0.0.1:80", ":80" (all of them,
// of IPv4 and IPv6), "[::1]:0" (any port that is free). Networks are tcp, mptcp and these with 4 or 6.
func (n *Network) Listen(network, address string) (net.Listener, error) {
	s, err := n.bound(network, address, syscall.SOCK_STREAM)
	if err != nil {
		return nil, err
	}
	if err := s.listen(); err != nil {
		s.close()
		return nil, &net.OpError{Op: "listen", Net: network, Err: err}
	}
	return &Listener{socket: s, network: network, at: addr(network, s.local())}, nil
}

// ListenPacket gives a UDP socket at an address of the kernel's. Networks are udp, udp4 and udp6.
func (n *Network) ListenPacket(network, address string) (net.PacketConn, error) {
	s, err := n.bound(network, address, syscall.SOCK_DGRAM)
	if err != nil {
		return nil, err
	}
	return &PacketConn{socket: s, network: network, at: addr(network, s.local())}, nil
}

func (n *Network) bound(network, address string, wanted int) (*socket, error) {
	fail := func(err error) (*socket, error) {
		return nil, &net.OpError{Op: "listen", Net: network, Err: err}
	}
	kind, err := kindOf(network)
	if err == nil && kind != wanted {
		err = net.UnknownNetworkError(network)
	}
	if err != nil {
		return fail(err)
	}
	at := netip.AddrPort{}
	host, service, err := net.SplitHostPort(address)
	if err == nil && host == "" {
		port, err := net.LookupPort(ported(network), service)
		if err != nil {
			return fail(err)
		}
		any := netip.IPv6Unspecified()
		if network[len(network)-1] == '4' {
			any = netip.IPv4Unspecified()
		}
		at = netip.AddrPortFrom(any, uint16(port))
	} else {
		all, err := n.resolve(context.Background(), network, address)
		if err != nil {
			return fail(err)
		}
		at = all[0]
	}
	s, err := n.opened(network, kind, at)
	if err != nil {
		return fail(err)
	}
	if at.Addr().Is6() {
		only := cInt(0)
		if network[len(network)-1] == '6' {
			only = 1
		}
		err = s.set(syscall.IPPROTO_IPV6, syscall.IPV6_V6ONLY, only)
	}
	if err == nil && kind == syscall.SOCK_STREAM {
		err = s.set(syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	}
	if err == nil {
		err = s.bind(at)
	}
	if err != nil {
		s.close()
		return fail(err)
	}
	return s, nil
}
