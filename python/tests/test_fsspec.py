# SPDX-License-Identifier: GPL-2.0-only
"""Promises about tane:// URLs."""

from __future__ import annotations

import errno
import os
import pickle
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fsspec
import pandas as pd
import pytest
from conftest import MakeImage, fsck, fsck_partitioned, run

import tane
from tane.fs import TaneFileSystem

CSV = b"name,number\none,1\ntwo,2\n"


@pytest.fixture
def data(make_image: MakeImage) -> Path:
    return make_image({"data.csv": CSV, "d/a": b"aaa", "d/b": b"bb", "d/e/c": b"c"})


@pytest.fixture
def fs(data: Path) -> Iterator[Any]:
    fs = fsspec.filesystem(
        "tane", image=str(data), writable=True, skip_instance_cache=True
    )
    yield fs
    fs.close()
    fsck(data)


def test_the_entry_point_is_installed() -> None:
    assert fsspec.get_filesystem_class("tane") is TaneFileSystem


def test_pandas_reads_a_url(data: Path) -> None:
    frame = pd.read_csv(f"tane://{data}:/data.csv")
    assert frame["number"].sum() == 3


def test_pandas_writes_a_url(data: Path) -> None:
    frame = pd.DataFrame({"x": range(1000)})
    options = {"writable": True}
    url = f"tane://{data}:/new.csv"
    frame.to_csv(url, index=False, storage_options=options)
    back = pd.read_csv(url, storage_options=options)
    assert back.equals(frame)
    # It is in the image, though the image is still open.
    image = data.read_bytes()
    fs, _ = fsspec.url_to_fs(url, **options)
    fs.close()
    assert b"\n997\n998\n999\n" in image
    fsck(data)


def test_reading_is_the_default(data: Path) -> None:
    with pytest.raises(OSError, match="writable=True") as refused:
        pd.DataFrame({"x": [1]}).to_csv(f"tane://{data}:/new.csv")
    assert refused.value.errno == errno.EROFS


def test_urls_are_addresses(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(data.parent)
    for url in (
        f"tane://{data}:/d/a",
        "tane://disk.img:/d/a",
        "tane://disk.img@label=test:/d/a",
    ):
        with fsspec.open(url) as file:
            assert file.read() == b"aaa"
        fs, path = fsspec.url_to_fs(url)
        assert path == "/d/a"
        with fsspec.open(fs.unstrip_protocol(path)) as file:
            assert file.read() == b"aaa"
    with fsspec.open(f"tane://{data}:/data.csv", "rt") as file:
        assert file.readline() == "name,number\n"
    files = fsspec.open_files(f"tane://{data}:/d/*")
    assert [f.path for f in files] == ["/d/a", "/d/b"]


def test_compression_of_fsspec_works_on_top(fs: Any, data: Path) -> None:
    with fs.open("/x.gz", "wb", compression="gzip") as file:
        file.write(b"packed" * 1000)
    with fs.open("/x.gz", "rb", compression="gzip") as file:
        assert file.read() == b"packed" * 1000
    assert fs.size("/x.gz") < 1000


def test_listing_and_info(fs: Any) -> None:
    assert fs.ls("/d", detail=False) == ["/d/a", "/d/b", "/d/e"]
    infos = {i["name"]: i for i in fs.ls("/d")}
    assert infos["/d/a"]["size"] == 3 and infos["/d/a"]["type"] == "file"
    assert infos["/d/e"]["type"] == "directory"
    assert fs.info("/d/a") == infos["/d/a"]
    assert fs.ls("/d/a", detail=False) == ["/d/a"]
    assert fs.find("/d") == ["/d/a", "/d/b", "/d/e/c"]
    assert fs.glob("/d/**/c") == ["/d/e/c"]
    assert fs.du("/d") == 6
    assert fs.isdir("/d") and fs.isfile("/d/a") and not fs.exists("/none")
    fs.mount.symlink("a", "/d/l")
    assert fs.info("/d/l")["islink"] and fs.info("/d/l")["size"] == 3
    fs.mount.symlink("nowhere", "/d/n")
    assert fs.info("/d/n")["type"] == "link"
    with pytest.raises(FileNotFoundError):
        fs.ls("/none")


def test_ranges_and_many_files(fs: Any) -> None:
    assert fs.cat_file("/data.csv", 5, 11) == CSV[5:11]
    assert fs.cat_file("/data.csv", -6) == CSV[-6:]
    assert fs.cat_file("/data.csv", 5, -2) == CSV[5:-2]
    assert fs.cat("/data.csv") == CSV
    assert fs.cat(["/d/a", "/d/b"]) == {"/d/a": b"aaa", "/d/b": b"bb"}
    assert fs.cat("/d", recursive=True) == {
        "/d/a": b"aaa",
        "/d/b": b"bb",
        "/d/e/c": b"c",
    }
    assert fs.cat(["/d/a", "/none"], on_error="omit") == {"/d/a": b"aaa"}
    with pytest.raises(FileNotFoundError):
        fs.cat(["/d/a", "/none"])
    assert fs.cat_ranges(["/d/a", "/d/b"], [1, 0], [2, 1]) == [b"a", b"b"]
    assert fs.head("/data.csv", 4) == b"name" and fs.tail("/data.csv", 4) == b"o,2\n"


def test_changes(fs: Any) -> None:
    fs.mkdir("/p")
    fs.pipe_file("/p/q", b"piped")
    assert fs.cat("/p/q") == b"piped"
    fs.mv("/p/q", "/p/r")
    fs.copy("/d", "/copy", recursive=True)
    assert fs.cat("/copy/e/c") == b"c"
    fs.rm("/copy", recursive=True)
    assert not fs.exists("/copy")
    fs.rm("/p/r")
    fs.rmdir("/p")
    fs.makedirs("/x/y/z", exist_ok=True)
    fs.makedirs("/x/y/z", exist_ok=True)
    with pytest.raises(FileExistsError):
        fs.makedirs("/x/y/z")
    fs.touch("/x/t")
    assert fs.size("/x/t") == 0
    with fs.open("/x/t", "ab") as file:
        file.write(b"1")
    with fs.open("/x/t", "ab") as file:
        file.write(b"2")
    assert fs.cat("/x/t") == b"12"


def test_put_and_get(fs: Any, tmp_path: Path) -> None:
    local = tmp_path / "local"
    (local / "sub").mkdir(parents=True)
    (local / "sub/f").write_bytes(os.urandom(100_000))
    fs.put(str(local), "/put", recursive=True)
    fs.get("/put", str(tmp_path / "got"), recursive=True)
    assert (tmp_path / "got/sub/f").read_bytes() == (local / "sub/f").read_bytes()


def test_times(fs: Any) -> None:
    fs.pipe_file("/new", b"")
    fs.mount.utime("/new", ns=(0, 86_400 * 10**9))
    assert fs.modified("/new") == datetime(1970, 1, 2, tzinfo=UTC)
    assert abs(fs.created("/new") - datetime.now(UTC)) < timedelta(days=1)


def test_what_was_closed_is_in_the_image(fs: Any, data: Path) -> None:
    with fs.open("/new", "wb") as file:
        file.write(b"synced")
    # A copy of the image, as a power cut would leave it; e2fsck replays.
    copy = data.with_name("copy.img")
    copy.write_bytes(data.read_bytes())
    run("e2fsck", "-fy", copy, codes=(0, 1))
    assert run("debugfs", "-R", "cat /new", copy) == "synced"


def test_file_systems_of_one_image_share_a_kernel(data: Path) -> None:
    def fs() -> Any:
        return fsspec.filesystem("tane", image=str(data))

    assert fs() is fs()
    mounts = [fs().mount]
    # In another thread fsspec makes another one.
    thread = threading.Thread(target=lambda: mounts.append(fs().mount))
    thread.start()
    thread.join()
    assert mounts[0] is mounts[1]
    fs().close()
    assert fs().cat("/d/a") == b"aaa"
    fs().close()


def test_a_file_system_can_be_sent(data: Path) -> None:
    fs = fsspec.filesystem("tane", image=str(data))
    again = pickle.loads(pickle.dumps(fs))
    assert again.cat("/d/a") == b"aaa"
    fs.close()


def test_writing_locks_until_close(data: Path) -> None:
    fs = fsspec.filesystem("tane", image=str(data), writable=True)
    fs.touch("/f")
    with pytest.raises(OSError, match="in use by another program"):
        tane.open(data)
    fs.close()
    tane.open(data).close()


def test_one_process_reads_and_writes_an_image(data: Path) -> None:
    url, new = f"tane://{data}:/data.csv", f"tane://{data}:/new.csv"
    writable = {"writable": True}
    frame = pd.read_csv(url)
    frame["number"] += 1
    frame.to_csv(new, index=False, storage_options=writable)
    # By the file system that has read before, and does not write.
    assert pd.read_csv(new).equals(frame)
    frame.to_csv(url, index=False, storage_options=writable)
    assert pd.read_csv(url).equals(frame)
    with pytest.raises(OSError, match="writable=True"):
        frame.to_csv(url)
    # The other way round, by another name, and with a kernel of another size.
    link = data.with_name("link.img")
    link.hardlink_to(data)
    options = {"memory": 128 << 20}
    assert pd.read_csv(f"tane://{link}:/new.csv", storage_options=options).equals(frame)
    frame.to_csv(f"tane://{link}:/more.csv", storage_options=options | writable)
    fs, _ = fsspec.url_to_fs(url, **writable)
    reader, _ = fsspec.url_to_fs(url)
    assert reader.mount is fs.mount
    reader.close()
    assert fs.exists("/more.csv")
    fs.close()
    assert reader.exists("/more.csv")
    with tane.open(data) as alone:
        assert alone.exists("more.csv")
    reader.close()
    fsck(data)


def test_file_systems_of_one_disk_are_read_and_written_in_one_process(
    partitioned: Path,
) -> None:
    with tane.Image(partitioned, mode="rw") as image, image.mount("2") as mount:
        (mount / "one").write_bytes(b"1")
    read = fsspec.filesystem("tane", image=str(partitioned), selector="2")
    assert read.cat("/one") == b"1"
    label = fsspec.filesystem(
        "tane", image=str(partitioned), selector="label=test", writable=True
    )
    label.pipe_file("/two", b"2")
    assert read.cat("/two") == b"2"
    label.close()
    read.close()
    fsck_partitioned(partitioned)


def test_who_reads_goes_on_in_all_threads_when_another_begins_to_write(
    data: Path,
) -> None:
    held = fsspec.filesystem("tane", image=str(data)).mount
    ends, wrong, reads = threading.Event(), [], []

    def read() -> None:
        fs = fsspec.filesystem("tane", image=str(data))
        while not ends.is_set():
            try:
                assert fs.cat("/d/a") == b"aaa" and held.read_bytes("/d/b") == b"bb"
                assert fs.ls("/d", detail=False)
            except BaseException as error:
                wrong.append(error)
                raise
            reads.append(1)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        fs = fsspec.filesystem("tane", image=str(data), writable=True)
        before = len(reads)
        fs.pipe_file("/new", b"x")
        while len(reads) < before + 20 and not wrong:
            time.sleep(0.001)
        fs.close()
        if wrong:
            break
    ends.set()
    for thread in threads:
        thread.join()
    assert not wrong
    fs.close()
    fsspec.filesystem("tane", image=str(data)).close()
    fsck(data)


def test_a_file_that_is_being_read_is_not_taken_away(data: Path) -> None:
    reader = fsspec.filesystem("tane", image=str(data))
    writer = fsspec.filesystem("tane", image=str(data), writable=True)
    with reader.open("/data.csv", "rb") as file:
        with pytest.raises(OSError, match="open for reading: close them") as busy:
            writer.touch("/f")
        assert busy.value.errno == errno.EBUSY
        assert file.read() == CSV
    writer.touch("/f")
    with reader.open("/data.csv", "rb") as file:
        assert file.read() == CSV
    assert reader.exists("/f")
    writer.close()
    fsck(data)


def test_an_image_that_somebody_else_has_is_still_read(data: Path) -> None:
    reader = fsspec.filesystem("tane", image=str(data))
    writer = fsspec.filesystem("tane", image=str(data), writable=True)
    assert reader.cat("/d/a") == b"aaa"
    with tane.open(data):
        with pytest.raises(OSError, match="in use by another program"):
            writer.touch("/f")
        assert reader.cat("/d/a") == b"aaa"
    writer.touch("/f")
    writer.close()
    reader.close()
