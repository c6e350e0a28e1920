# SPDX-License-Identifier: GPL-2.0-only
"""The Python of the documentation runs, block by block."""

from __future__ import annotations

import http.server
import importlib.util
import re
import threading
from pathlib import Path
from typing import Any

import fsspec
import pandas as pd
import pytest
from conftest import START, MakeImage, fsck, run
from tqdm import tqdm

import tane

TOP = Path(__file__).parent.parent.parent
FILES = {"etc/os-release": b"ID=seed\n", "data.csv": b"x\n1\n2\n", "var/log/a": b"log"}


def blocks(name: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (TOP / name).read_text(), re.DOTALL)


@pytest.fixture
def here(
    make_image: MakeImage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Where disk.img and disk.qcow2 with two partitions are, and some files."""
    image = make_image(FILES)
    monkeypatch.chdir(tmp_path)
    disk = Path("raw")
    with disk.open("wb") as file:
        file.truncate(80 << 20)
        for start in (START, START + 36):
            file.seek(start << 20)
            file.write(image.read_bytes())
    table = "\n".join(
        ["label: gpt"]
        + [f"start={start}MiB, size=32MiB" for start in (START, START + 36)]
    )
    Path("table").write_text(table + "\n")
    run("sh", "-c", "sfdisk -q raw <table")
    run("qemu-img", "convert", "-O", "qcow2", "raw", "disk.qcow2")
    site = Path("site")
    site.mkdir()
    (site / "index.html").write_text("hello\n")
    return image


def test_the_readmes_show_what_runs(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("README.md", "python/README.md"):
        (code,) = blocks(name)
        exec(code, {"tane": tane})
        assert capsys.readouterr().out == "ID=seed\n\n", name


def test_docs_python_shows_what_runs(
    here: Path, module_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, sockets, copies, modules, urls = blocks("docs/python.md")
    exec(first, {})
    with tane.open("disk.img") as mount:
        assert (mount / "etc/hostname").read_text() == "example\n"
        assert (mount / "var/www/index.html").read_text() == "hello\n"
        exec(copies, {"tane": tane, "tqdm": tqdm, "mount": mount})
    assert Path("log/a").read_bytes() == b"log"
    Path("scan.tmod").write_bytes(module_file.read_bytes())
    capsys.readouterr()
    exec(modules, {"tane": tane, "Path": Path})
    assert capsys.readouterr().out == f"{len(FILES['data.csv'])}\n"
    handler = http.server.SimpleHTTPRequestHandler
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        exec(sockets.replace("8000", str(server.server_port)), {"tane": tane})
        server.shutdown()
    assert "HTTP/1.0 200 OK" in capsys.readouterr().out
    frame = pd.DataFrame({"x": [1, 2]})
    names: dict[str, Any] = {"pd": pd, "fsspec": fsspec, "frame": frame}
    for line in urls.splitlines():
        # scripts/python arrow writes Parquet.
        if "to_parquet" not in line or importlib.util.find_spec("pyarrow"):
            exec(line, names)
    assert names["fs"].cat("/data.csv") == FILES["data.csv"]
    names["fs"].close()
    fsck(here)
