// SPDX-License-Identifier: GPL-2.0-only

package tane

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestEndpointsAndLimitsAreWhatTheKernelHas(t *testing.T) {
	network := booted(t)
	mptcp := network.MPTCP()
	has := func(wanted ...Endpoint) {
		t.Helper()
		if found, err := mptcp.Endpoints(); err != nil || fmt.Sprint(found) != fmt.Sprint(wanted) {
			t.Fatal(found, err)
		}
	}
	limited := func(wanted MPTCPLimits) {
		t.Helper()
		if found, err := mptcp.Limits(); err != nil || found != wanted {
			t.Fatal(found, err)
		}
	}
	has()
	limited(MPTCPLimits{Subflows: 2})
	if err := mptcp.SetLimits(MPTCPLimits{Subflows: 8, Accepted: 5}); err != nil {
		t.Fatal(err)
	}
	if err := mptcp.SetLimits(MPTCPLimits{Subflows: 9}); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
	limited(MPTCPLimits{Subflows: 8, Accepted: 5})

	lo := network.Link("lo")
	index, err := lo.Index()
	if err != nil || index < 1 {
		t.Fatal(index, err)
	}
	first := Endpoint{Address: netip.MustParseAddr("10.0.0.7"), Subflow: true, Backup: true}
	second := Endpoint{Address: netip.MustParseAddr("fd00::7"), Signal: true}
	third := Endpoint{Address: netip.MustParseAddr("10.0.0.8"), Fullmesh: true}
	for _, err := range []error{
		mptcp.AddEndpoint(first), mptcp.AddEndpointAt(lo, second), mptcp.AddEndpoint(third),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	first.ID, second.ID, second.Link, third.ID = 1, 2, index, 3
	has(first, second, third)
	err = mptcp.AddEndpoint(second)
	if !errors.Is(err, syscall.EEXIST) || !strings.Contains(err.Error(), "fd00::7") {
		t.Error(err)
	}
	for _, wrong := range []Endpoint{
		{Signal: true},
		{Address: netip.MustParseAddr("10.0.0.9"), Signal: true, Fullmesh: true},
	} {
		if err := mptcp.AddEndpoint(wrong); !errors.Is(err, syscall.EINVAL) {
			t.Error(wrong, err)
		}
	}
	if err := mptcp.AddEndpointAt(network.Link("eth7"), first); !errors.Is(err, syscall.ENODEV) {
		t.Error(err)
	}
	if err := mptcp.RemoveEndpoint(1); err != nil {
		t.Error(err)
	}
	if err := mptcp.RemoveEndpoint(1); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
	has(second, third)
	if err := mptcp.Clear(); err != nil {
		t.Error(err)
	}
	has()
}

func TestAConnectionTakesEveryWireThatItMay(t *testing.T) {
	a, b := joined(t)
	near, far, err := a.Pair(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close(); far.Close() })
	for number, nic := range []*Nic{near, far} {
		address := netip.MustParsePrefix(fmt.Sprintf("10.0.1.%d/24", number+1))
		if err := nic.Link().AddAddress(address); err != nil {
			t.Fatal(err)
		}
		if err := nic.Link().Up(); err != nil {
			t.Fatal(err)
		}
	}
	// A way that only what is bound to its interface takes.
	far9, by := netip.MustParsePrefix("10.9.0.0/16"), netip.MustParseAddr("10.0.1.2")
	if err := near.Link().AddRoute(far9, by, 5); err != nil {
		t.Error(err)
	}
	if err := near.Link().AddRoute(far9, by, 5); !errors.Is(err, syscall.EEXIST) {
		t.Error(err)
	}
	for _, network := range []*Network{a, b} {
		if err := network.MPTCP().SetLimits(MPTCPLimits{Subflows: 1, Accepted: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.MPTCP().AddEndpoint(Endpoint{Address: by, Signal: true}); err != nil {
		t.Fatal(err)
	}
	listener, err := b.Listen("mptcp", ":4000")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	dialled, err := a.Dial("mptcp", "10.0.0.2:4000")
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	client, server := dialled.(*Conn), accepted.(*Conn)
	// The other address is told with what is sent, and joined in time.
	var info MPTCPInfo
	data, memory := bytes.Repeat([]byte("x"), 1000), make([]byte, 1000)
	for n := 0; n < 1000 && len(info.Subflows) < 2; n++ {
		if _, err := client.Write(data); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(server, memory); err != nil || !bytes.Equal(memory, data) {
			t.Fatal(err)
		}
		if info, err = client.MPTCPInfo(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	var ends []string
	for _, path := range info.Subflows {
		ends = append(ends, fmt.Sprint(path.Local.Addr(), " ", path.Remote))
	}
	if wanted := "[10.0.0.1 10.0.0.2:4000 10.0.1.1 10.0.1.2:4000]"; fmt.Sprint(ends) != wanted {
		t.Fatal(ends)
	}
	first, second := info.Subflows[0], info.Subflows[1]
	if first.ID == second.ID || first.RTT <= 0 || first.BytesSent < 1000 {
		t.Error(first, second)
	}
	if info.BytesSent < 1000 || info.BytesReceived != 0 {
		t.Error(info)
	}
	if info, err := server.MPTCPInfo(); err != nil || info.BytesReceived < 1000 {
		t.Error(info, err)
	}
	// The end of a stream, as of TCP's.
	client.Close()
	if n, err := server.Read(memory); n != 0 || err != io.EOF {
		t.Error(n, err)
	}
	server.Close()

	// One of TCP's has no paths.
	plain, err := a.Dial("tcp", "10.0.0.2:4000")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if _, err := plain.(*Conn).MPTCPInfo(); !errors.Is(err, syscall.EOPNOTSUPP) {
		t.Error(err)
	}
}
