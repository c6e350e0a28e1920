// SPDX-License-Identifier: GPL-2.0-only

package tane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func booted(t *testing.T) *Network {
	t.Helper()
	kernel, err := Boot(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kernel.Close() })
	if err := kernel.Network().Link("lo").Up(); err != nil {
		t.Fatal(err)
	}
	return kernel.Network()
}

// joined are two kernels on a wire, 10.0.0.1 and 10.0.0.2.
func joined(t *testing.T) (*Network, *Network) {
	t.Helper()
	a, b := booted(t), booted(t)
	near, far, err := a.Pair(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close(); far.Close() })
	for number, nic := range []*Nic{near, far} {
		address := netip.MustParsePrefix(fmt.Sprintf("10.0.0.%d/24", number+1))
		if err := nic.Link().AddAddress(address); err != nil {
			t.Fatal(err)
		}
		if err := nic.Link().Up(); err != nil {
			t.Fatal(err)
		}
	}
	return a, b
}

func client(dial func(context.Context, string, string) (net.Conn, error)) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: dial}, Timeout: time.Minute}
}

func served(t *testing.T, listener net.Listener) {
	t.Helper()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s ", r.Method, r.URL.Path)
		w.Write(body)
	})}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
}

func fetched(t *testing.T, client *http.Client, url string, body []byte) {
	t.Helper()
	response, err := client.Post(url, "text/plain", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if want := append([]byte("POST /a "), body...); !bytes.Equal(got, want) {
		t.Fatalf("%d bytes, not %d", len(got), len(want))
	}
}

func TestHTTPRunsInsideAKernelAndBetweenTwo(t *testing.T) {
	a, b := joined(t)
	for _, address := range []string{"10.0.0.2:80", "10.0.0.2:81"} {
		listener, err := b.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		served(t, listener)
		if got := listener.Addr().String(); got != address {
			t.Error(got)
		}
	}
	large := bytes.Repeat([]byte("0123456789abcdef"), 200_000)
	for _, from := range []*Network{a, b} {
		client := client(from.DialContext)
		var clients sync.WaitGroup
		for n := 0; n < 10; n++ {
			clients.Add(1)
			go func(n int) {
				defer clients.Done()
				fetched(t, client, fmt.Sprintf("http://10.0.0.2:%d/a", 80+n%2), large[:n*n*1000])
			}(n)
		}
		clients.Wait()
		fetched(t, client, "http://10.0.0.2/a", large)
		client.CloseIdleConnections()
	}
}

func TestUserModeReachesTheHostAndIsReachedByIt(t *testing.T) {
	network := booted(t)
	nic, err := network.User(&UserNetwork{Allow: []string{"host"}, Forwards: []string{"0:8000"}})
	if err != nil {
		t.Fatal(err)
	}
	defer nic.Close()
	outside, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served(t, outside)
	port := outside.Addr().(*net.TCPAddr).Port
	fetched(t, client(network.DialContext), fmt.Sprintf("http://10.0.2.2:%d/a", port), []byte("in"))

	inside, err := network.Listen("tcp", ":8000")
	if err != nil {
		t.Fatal(err)
	}
	served(t, inside)
	url := fmt.Sprintf("http://127.0.0.1:%d/a", nic.Port(0))
	fetched(t, &http.Client{Timeout: time.Minute}, url, []byte("out"))
	if nic.Port(1) != 0 {
		t.Error(nic.Port(1))
	}
	for _, wrong := range []string{"a b", ""} {
		if _, err := network.User(&UserNetwork{Allow: []string{wrong}}); !errors.Is(err, syscall.EINVAL) {
			t.Error(wrong, err)
		}
	}
}

// pair is a connection inside a kernel.
func pair(t *testing.T, network *Network) (*Conn, *Conn) {
	t.Helper()
	listener, err := network.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	near, err := network.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close(); far.Close() })
	return near.(*Conn), far.(*Conn)
}

func isTimeout(err error) bool {
	var failed net.Error
	return errors.As(err, &failed) && failed.Timeout() && errors.Is(err, os.ErrDeadlineExceeded)
}

func TestDeadlinesEndReadingAndWritingAndAreNotForEver(t *testing.T) {
	near, far := pair(t, booted(t))
	near.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := near.Read(make([]byte, 1)); !isTimeout(err) {
		t.Fatal(err)
	}
	near.SetReadDeadline(time.Time{})
	far.Write([]byte("x"))
	if n, err := near.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	data := make([]byte, 64<<20)
	near.SetWriteDeadline(time.Now().Add(time.Second))
	sent, err := near.Write(data)
	if !isTimeout(err) || sent == 0 || sent == 64<<20 {
		t.Fatal(sent, err)
	}
	// A deadline that is set while somebody waits counts, too.
	time.AfterFunc(50*time.Millisecond, func() { far.SetDeadline(time.Unix(1, 0)) })
	for err = nil; err == nil; {
		_, err = far.Read(make([]byte, 1<<20))
	}
	if !isTimeout(err) {
		t.Fatal(err)
	}
	far.SetDeadline(time.Time{})
	near.SetDeadline(time.Time{})
	near.CloseWrite()
	got, err := io.Copy(io.Discard, far)
	if err != nil || got > int64(sent) {
		t.Fatal(got, sent, err)
	}
	far.Write([]byte("still"))
	far.Close()
	if text, err := io.ReadAll(near); string(text) != "still" || err != nil {
		t.Fatal(string(text), err)
	}
}

func TestClosingEndsWhoWaits(t *testing.T) {
	network := booted(t)
	near, _ := pair(t, network)
	listener, err := network.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	packets, err := network.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 3)
	go func() { _, err := near.Read(make([]byte, 1)); ended <- err }()
	go func() { _, err := listener.Accept(); ended <- err }()
	go func() { _, _, err := packets.ReadFrom(make([]byte, 1)); ended <- err }()
	time.Sleep(20 * time.Millisecond)
	near.Close()
	listener.Close()
	packets.Close()
	for n := 0; n < 3; n++ {
		select {
		case err := <-ended:
			if !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("it waits still")
		}
	}
	if err := near.Close(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

func TestDatagramsGoThereAndBack(t *testing.T) {
	network := booted(t)
	for _, host := range []string{"127.0.0.1", "[::1]"} {
		packets, err := network.ListenPacket("udp", host+":0")
		if err != nil {
			t.Fatal(err)
		}
		conn, err := network.Dial("udp", packets.LocalAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		conn.Write([]byte("ping"))
		memory := make([]byte, 100)
		n, from, err := packets.ReadFrom(memory)
		if err != nil || string(memory[:n]) != "ping" || from.String() != conn.LocalAddr().String() {
			t.Fatal(string(memory[:n]), from, err)
		}
		if _, err := packets.WriteTo([]byte("pong"), from); err != nil {
			t.Fatal(err)
		}
		if n, err := conn.Read(memory); err != nil || string(memory[:n]) != "pong" {
			t.Fatal(n, err)
		}
		packets.Close()
		conn.Close()
	}
}

func TestAConnectionThatIsNotMadeSaysWhy(t *testing.T) {
	a, _ := joined(t)
	_, err := a.Dial("tcp", "10.0.0.2:9")
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Error(err)
	}
	var failed *net.OpError
	if !errors.As(err, &failed) || failed.Op != "dial" || failed.Addr.String() != "10.0.0.2:9" {
		t.Error(err)
	}
	if _, err := a.Dial("tcp", "192.0.2.1:9"); !errors.Is(err, syscall.ENETUNREACH) {
		t.Error(err)
	}
	// Nobody has this address.
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if _, err := a.DialContext(ctx, "tcp", "10.0.0.99:9"); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	ctx, cancel = context.WithCancel(context.Background())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := a.DialContext(ctx, "tcp", "10.0.0.99:9"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for _, wrong := range []string{"10.0.0.2", "10.0.0.2:x:y", "a b:80", ":99999"} {
		if _, err := a.Dial("tcp", wrong); err == nil {
			t.Error(wrong)
		}
	}
	if _, err := a.Dial("unix", "/x"); err == nil {
		t.Error("a unix socket")
	}
	_, err = a.LookupHost(context.Background(), "a.example")
	var unknown *net.DNSError
	if !errors.As(err, &unknown) || !strings.Contains(unknown.Err, "resolv.conf") {
		t.Error(err)
	}
	if found, err := a.LookupHost(context.Background(), "localhost"); err != nil || len(found) != 2 {
		t.Error(found, err)
	}
	a.kernel.Close()
}

func TestANetworkIsAsSlowAsItWasAskedToBe(t *testing.T) {
	a, b := joined(t)
	listener, err := b.Listen("tcp", "10.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	link := a.Link("eth0")
	if err := link.Impair("delay=80ms"); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	conn, err := a.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if took := time.Since(begun); took < 80*time.Millisecond {
		t.Error(took)
	}
	if err := link.Impair("delay"); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
	if err := link.Impair(""); err != nil {
		t.Error(err)
	}
}

func TestManyConnectionsWaitWithFewThreads(t *testing.T) {
	const many = 300
	network := booted(t)
	threads := func() int {
		entries, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	before := threads()
	ended := make(chan error, many)
	var conns []*Conn
	for n := 0; n < many; n++ {
		near, far := pair(t, network)
		conns = append(conns, near)
		go func() {
			memory := make([]byte, 1)
			_, err := io.ReadFull(far, memory)
			ended <- err
		}()
	}
	time.Sleep(20 * time.Millisecond)
	if now := threads(); now-before > 50+4*runtime.GOMAXPROCS(0) {
		t.Errorf("%d threads, before %d", now, before)
	}
	for _, conn := range conns {
		conn.Write([]byte("x"))
	}
	for n := 0; n < many; n++ {
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
}
