# SPDX-License-Identifier: GPL-2.0-only
"""Promises about images on web servers, here one of Python's own, by TLS."""

from __future__ import annotations

import http.server
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pandas as pd
import pytest
from conftest import MakeImage, run

import tane
from tane.fs import TaneFileSystem

CONFIG = "[req]\ndistinguished_name = d\n[d]\n"


class Handler(http.server.SimpleHTTPRequestHandler):
    """With ranges, which it has not; without messages."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        wanted = self.headers.get("Range", "")
        if not path.is_file() or not wanted.startswith("bytes="):
            self.send_error(404)
            return
        data = path.read_bytes()
        first, last = (int(n) for n in wanted.removeprefix("bytes=").split("-"))
        part = data[first : last + 1]
        self.send_response(206)
        self.send_header("ETag", '"1"')
        span = f"bytes {first}-{first + len(part) - 1}/{len(data)}"
        self.send_header("Content-Range", span)
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        self.wfile.write(part)

    def log_message(self, *_: Any) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """Clients that do not trust it go away."""


@pytest.fixture
def server(make_image: MakeImage, tmp_path: Path) -> Iterator[str]:
    """Its address. There are `disk.img` and `disk.qcow2`, and `ca.pem` to trust it."""
    image = make_image({"hello": b"from afar\n", "table.csv": b"x\n1\n2\n"})
    run("qemu-img", "convert", "-O", "qcow2", image, image.with_suffix(".qcow2"))
    (tmp_path / "ssl.conf").write_text(CONFIG)
    key = ["req", "-x509", "-config", str(tmp_path / "ssl.conf"), "-days", "2"]
    key += ["-newkey", "rsa:2048", "-nodes"]
    files = {
        n: str(tmp_path / f"{n}.pem") for n in ("ca", "ca.key", "cert", "cert.key")
    }
    ca = ["-subj", "/CN=test", "-addext", "basicConstraints=critical,CA:TRUE"]
    run("openssl", *key, *ca, "-keyout", files["ca.key"], "-out", files["ca"])
    own = ["-subj", "/CN=localhost", "-CA", files["ca"], "-CAkey", files["ca.key"]]
    own += ["-addext", "basicConstraints=critical,CA:FALSE"]
    own += ["-addext", "subjectAltName=DNS:localhost"]
    run("openssl", *key, *own, "-keyout", files["cert.key"], "-out", files["cert"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files["cert"], files["cert.key"])

    def handler(*arguments: Any) -> Handler:
        return Handler(*arguments, directory=str(tmp_path))

    with Server(("127.0.0.1", 0), handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"https://localhost:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def trusted(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    monkeypatch.setenv("NO_PROXY", "localhost")
    return server


def test_an_image_is_read_by_https_in_the_jail(trusted: str) -> None:
    for name in ("disk.img", "disk.qcow2"):
        with tane.open(f"{trusted}/{name}") as mount:
            assert mount.image.worker is not None
            assert mount.read_bytes("hello") == b"from afar\n"
    with pytest.raises(FileNotFoundError, match="no such file on the server"):
        tane.open(f"{trusted}/none.img")


def test_an_image_of_a_server_that_is_not_trusted_is_not_read(server: str) -> None:
    with pytest.raises(OSError, match="certificate"):
        tane.open(f"{server}/disk.img")


def test_pandas_reads_a_table_in_an_image_on_a_server(trusted: str) -> None:
    url = f"tane://{trusted}/disk.qcow2:/table.csv"
    assert pd.read_csv(url)["x"].tolist() == [1, 2]
    fs, path = fsspec.url_to_fs(url)
    assert isinstance(fs, TaneFileSystem)
    assert fs.unstrip_protocol(path) == url
    fs.close()
