# SPDX-License-Identifier: GPL-2.0-only
"""Promises about connections over several paths."""

from __future__ import annotations

import errno
import socket
import time

import pytest

import tane


def test_endpoints_and_limits_are_what_the_kernel_has() -> None:
    with tane.Kernel() as kernel:
        mptcp = kernel.network.mptcp
        assert mptcp.endpoints() == []
        assert mptcp.limits() == (2, 0)
        mptcp.set_limits(8, 5)
        with pytest.raises(OSError) as wrong:
            mptcp.set_limits(subflows=9, accepted=5)
        assert wrong.value.errno == errno.EINVAL
        assert mptcp.limits() == (8, 5)

        lo = kernel.network.link("lo")
        mptcp.add_endpoint("10.0.0.7", subflow=True, backup=True)
        mptcp.add_endpoint("fd00::7", link=lo, signal=True)
        mptcp.add_endpoint("10.0.0.8", fullmesh=True)
        first, second, third = mptcp.endpoints()
        assert first == tane.Endpoint(
            id=1,
            address="10.0.0.7",
            link=None,
            signal=False,
            subflow=True,
            backup=True,
            fullmesh=False,
            implicit=False,
        )
        assert (second.id, second.address, second.link) == (2, "fd00::7", lo.index)
        assert second.signal and not (second.subflow or second.backup)
        assert third.fullmesh and not (third.signal or third.implicit)

        with pytest.raises(FileExistsError, match="fd00::7"):
            mptcp.add_endpoint("fd00::7", signal=True)
        with pytest.raises(OSError, match="is no address") as wrong:
            mptcp.add_endpoint("10.0.0.9/24", signal=True)
        assert wrong.value.errno == errno.EINVAL
        with pytest.raises(OSError) as wrong:
            mptcp.add_endpoint("10.0.0.9", signal=True, fullmesh=True)
        assert wrong.value.errno == errno.EINVAL
        with pytest.raises(OSError, match="eth7") as wrong:
            mptcp.add_endpoint("10.0.0.9", link=kernel.network.link("eth7"))
        assert wrong.value.errno == errno.ENODEV
        mptcp.remove_endpoint(1)
        with pytest.raises(OSError) as wrong:
            mptcp.remove_endpoint(1)
        assert wrong.value.errno == errno.EINVAL
        assert mptcp.endpoints() == [second, third]
        mptcp.clear()
        assert mptcp.endpoints() == []


def test_a_connection_takes_every_wire_that_it_may() -> None:
    with tane.Kernel() as a, tane.Kernel() as b:
        here, there = a.network, b.network
        wires = [here.pair(there) for _ in range(2)]
        for wire, ends in enumerate(wires):
            for number, nic in enumerate(ends, 1):
                nic.add_address(f"10.0.{wire}.{number}/24")
                nic.up()
        # A way that only what is bound to its interface takes.
        here.link("eth1").add_route("10.9.0.0/16", "10.0.1.2", 5)
        with pytest.raises(FileExistsError, match=r"10\.9\.0\.0/16"):
            here.link("eth1").add_route("10.9.0.0/16", "10.0.1.2", 5)
        for network in (here, there):
            network.mptcp.set_limits(1, 1)
        there.mptcp.add_endpoint("10.0.1.2", signal=True)
        listener = there.socket(proto=socket.IPPROTO_MPTCP)
        listener.bind(("", 4000))
        listener.listen()
        client = here.socket(proto=socket.IPPROTO_MPTCP)
        client.connect(("10.0.0.2", 4000))
        server, _ = listener.accept()
        # The other address is told with what is sent, and joined in time.
        for _ in range(1000):
            client.sendall(b"x" * 1000)
            assert server.recv(1000, socket.MSG_WAITALL) == b"x" * 1000
            info = client.mptcp_info()
            if len(info.subflows) == 2:
                break
            time.sleep(0.01)
        first, second = info.subflows
        assert first.id != second.id
        assert first.local.startswith("10.0.0.1:") and first.remote == "10.0.0.2:4000"
        assert second.local.startswith("10.0.1.1:") and second.remote == "10.0.1.2:4000"
        assert info.bytes_sent >= 1000 and info.bytes_received == 0
        assert first.bytes_sent >= 1000 and 0 < first.rtt < 10
        assert server.mptcp_info().bytes_received >= 1000

        # One of TCP's has no paths.
        with here.create_connection(("10.0.0.2", 4000)) as plain:
            with pytest.raises(OSError) as wrong:
                plain.mptcp_info()
            assert wrong.value.errno == errno.EOPNOTSUPP
        for one in (client, server, listener):
            one.close()
