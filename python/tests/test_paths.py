# SPDX-License-Identifier: GPL-2.0-only
"""Promises about TanePath: what pathlib.Path does, it does."""

from __future__ import annotations

import errno
import os
import pickle
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import MakeImage

import tane


@pytest.fixture(params=["host", "jailed", "here"])
def top(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """An empty directory: the oracle is pathlib on the host's files."""
    if request.param == "host":
        os.umask(0o022)
        path = tmp_path / "top"
        path.mkdir()
        yield path
        return
    mount = request.getfixturevalue(request.param)
    path = mount / "top"
    path.mkdir()
    yield path


def fill(top: Any) -> None:
    (top / "a/b/c").mkdir(parents=True)
    (top / "a/one.txt").write_text("1")
    (top / "a/b/two.txt").write_text("22")
    (top / "a/b/c/three.dat").write_bytes(b"333")
    (top / ".hidden.txt").write_text("")
    (top / "link").symlink_to("a/b")


def names(top: Any, paths: Any) -> list[str]:
    return sorted(str(p.relative_to(top)) for p in paths)


@pytest.mark.parametrize(
    "pattern",
    [
        "*",
        "*.txt",
        "a/*",
        "*/one.txt",
        "**/*.txt",
        "**",
        "a/**/*.dat",
        "link/*",
        "[ab]/?",
    ],
)
def test_glob_matches_what_pathlib_matches(top: Any, pattern: str) -> None:
    fill(top)
    found = names(top, top.glob(pattern))
    expected = {
        "*": [".hidden.txt", "a", "link"],
        "*.txt": [".hidden.txt"],
        "a/*": ["a/b", "a/one.txt"],
        "*/one.txt": ["a/one.txt"],
        "**/*.txt": [".hidden.txt", "a/b/two.txt", "a/one.txt"],
        "**": [".", "a", "a/b", "a/b/c"],
        "a/**/*.dat": ["a/b/c/three.dat"],
        "link/*": ["link/c", "link/two.txt"],
        "[ab]/?": ["a/b"],
    }
    assert found == expected[pattern]


def test_rglob_and_iterdir_find_everything(top: Any) -> None:
    fill(top)
    assert names(top, top.rglob("*.txt")) == [".hidden.txt", "a/b/two.txt", "a/one.txt"]
    assert names(top, top.iterdir()) == [".hidden.txt", "a", "link"]
    with pytest.raises(ValueError, match="pattern"):
        list(top.glob(""))


def test_kinds_are_told_apart(top: Any) -> None:
    fill(top)
    assert (top / "a").is_dir() and not (top / "a").is_file()
    assert (top / "a/one.txt").is_file() and not (top / "a/one.txt").is_symlink()
    assert (top / "link").is_symlink() and (top / "link").is_dir()
    assert not (top / "none").exists() and not (top / "a/one.txt/x").exists()
    (top / "dangling").symlink_to("nowhere")
    assert not (top / "dangling").exists() and (top / "dangling").is_symlink()
    (top / "loop").symlink_to("loop")
    assert not (top / "loop").is_dir()
    assert str((top / "link").readlink()) == "a/b"
    assert (top / "link").lstat().st_mode != (top / "link").stat().st_mode
    assert (top / "link/two.txt").samefile(top / "a/b/two.txt")


def test_owner_and_group_are_names_of_the_image(mount: tane.Mount) -> None:
    (mount / "etc").mkdir()
    (mount / "f").touch()
    (mount / "f").chown(4711, 4712)
    for name in ((mount / "f").owner, (mount / "f").group):
        with pytest.raises(KeyError):
            name()
    passwd = "# none\nroot:x:0:0::/:/bin/sh\nmine:x:4711:1::/:\nalias:x:4711:1::/:\n"
    (mount / "etc/passwd").write_text(passwd)
    (mount / "etc/group").write_text("root:x:0:\nours:x:4712:mine\n")
    assert ((mount / "f").owner(), (mount / "f").group()) == ("mine", "ours")
    assert ((mount / "etc").owner(), (mount / "etc").group()) == ("root", "root")
    (mount / "etc/passwd").unlink()
    mount.mknod("etc/passwd", stat.S_IFIFO | 0o600)
    with pytest.raises(KeyError):
        (mount / "f").owner()


def test_resolve_follows_links(top: Any) -> None:
    fill(top)
    top = top.resolve()
    assert (top / "link/../b/two.txt").resolve() == top / "a/b/two.txt"
    assert (top / "link/none").resolve() == top / "a/b/none"
    with pytest.raises(FileNotFoundError):
        (top / "link/none").resolve(strict=True)


def test_making_renaming_and_removing(top: Any) -> None:
    (top / "d").mkdir()
    with pytest.raises(FileExistsError):
        (top / "d").mkdir()
    (top / "d").mkdir(exist_ok=True)
    (top / "d/e/f").mkdir(parents=True, exist_ok=True)
    (top / "f").touch()
    with pytest.raises(FileExistsError):
        (top / "f").touch(exist_ok=False)
    with pytest.raises(FileExistsError):
        (top / "f").mkdir(exist_ok=True)
    assert (top / "f").rename(top / "g") == top / "g"
    (top / "h").hardlink_to(top / "g")
    assert (top / "h").stat().st_nlink == 2
    (top / "h").unlink()
    (top / "h").unlink(missing_ok=True)
    with pytest.raises(FileNotFoundError):
        (top / "h").unlink()
    with pytest.raises(OSError) as full:
        (top / "d").rmdir()
    assert full.value.errno == errno.ENOTEMPTY
    (top / "g").chmod(0o4751)
    assert stat.S_IMODE((top / "g").stat().st_mode) == 0o4751
    assert stat.S_IMODE((top / "d").stat().st_mode) == 0o755


def test_words_of_a_path_are_those_of_pathlib(top: Any) -> None:
    path = top / "x" / "name.tar.gz"
    assert (path.name, path.stem, path.suffix) == ("name.tar.gz", "name.tar", ".gz")
    assert path.suffixes == [".tar", ".gz"]
    assert path.parent == top / "x" and path.parent.parent in path.parents
    assert path.with_suffix(".xz").name == "name.tar.xz"
    assert path.with_stem("n").name == "n.gz"
    assert path.with_name("n") == top / "x/n"
    assert path.joinpath("a", "b") == path / "a/b"
    assert path / "/abs" != path
    assert str(path.relative_to(top)) == "x/name.tar.gz"
    assert path.is_relative_to(top) and path.match("*.gz")
    assert len({path, top / "x/name.tar.gz"}) == 1
    assert sorted([top / "b", top / "a"]) == [top / "a", top / "b"]


def test_errors_have_errno_and_filename(top: Any) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        (top / "none").read_text()
    assert missing.value.errno == errno.ENOENT
    assert missing.value.filename == str(top / "none")
    (top / "f").touch()
    with pytest.raises(NotADirectoryError):
        list((top / "f").iterdir())
    with pytest.raises(FileNotFoundError) as two:
        (top / "none").rename(top / "other")
    assert two.value.filename2 == str(top / "other")
    with pytest.raises(ValueError, match="null"):
        (top / "a\0b").read_bytes()
    with pytest.raises(OSError) as long:
        (top / ("x" * 256)).mkdir()
    assert long.value.errno == errno.ENAMETOOLONG


def test_extended_attributes(mount: tane.Mount) -> None:
    path = mount / "hello"
    assert path.listxattr() == []
    path.setxattr("user.a", b"1" * 700)
    path.setxattr("user.b", b"")
    assert sorted(path.listxattr()) == ["user.a", "user.b"]
    assert path.getxattr("user.a") == b"1" * 700
    with pytest.raises(FileExistsError):
        path.setxattr("user.a", b"", os.XATTR_CREATE)
    path.removexattr("user.a")
    with pytest.raises(OSError) as none:
        path.getxattr("user.a")
    assert none.value.errno == errno.ENODATA


def test_stat_is_to_the_nanosecond(mount: tane.Mount) -> None:
    path = mount / "hello"
    mount.utime(path, ns=(-1, 1_234_567_890_123_456_789))
    found = path.stat()
    assert isinstance(found, os.stat_result)
    assert (found.st_atime_ns, found.st_mtime_ns) == (-1, 1_234_567_890_123_456_789)
    path.chown(7, -1)
    assert (path.stat().st_uid, path.stat().st_gid) == (7, found.st_gid)
    assert found.st_size == 15 and found.st_blksize >= 512
    born = mount.birthtime_ns(path)
    assert born is not None and born > 1_600_000_000 * 10**9
    full = mount.statvfs()
    assert full.f_namemax == 255 and 0 < full.f_bavail < full.f_blocks


def test_scandir_knows_types_without_a_call(mount: tane.Mount) -> None:
    (mount / "link").symlink_to("dir")
    with mount.scandir("/") as entries:
        found = {e.name: e for e in entries}
    mount.kernel.halt()  # Whatever it says now, it has not asked.
    assert found["dir"].is_dir() and found["hello"].is_file()
    assert found["link"].is_symlink()
    assert not found["link"].is_dir(follow_symlinks=False)
    assert found["hello"].path == "/hello" and found["hello"].inode() > 0
    with pytest.raises(tane.KernelError):
        found["hello"].stat()
    with pytest.raises(tane.KernelError):
        mount.close()


def test_walk_is_that_of_os(mount: tane.Mount, tmp_path: Path) -> None:
    fill(mount.root)
    host = tmp_path / "host"
    mount.copy_out("/", host)

    def shape(walked: Any, top: str) -> list[tuple[str, list[str], list[str]]]:
        return sorted(
            (str(path).removeprefix(top).strip("/"), sorted(dirs), sorted(files))
            for path, dirs, files in walked
        )

    # The link to a directory is among the directories of os.walk().
    expected = [
        (
            path,
            [d for d in dirs if d != "link"],
            sorted([*files, *(set(dirs) & {"link"})]),
        )
        for path, dirs, files in shape(os.walk(host), str(host))
    ]
    assert shape(mount.walk(), "/") == expected
    assert shape(mount.root.walk(top_down=False), "/") == expected


def test_no_path_leads_out_of_the_mount(mount: tane.Mount) -> None:
    (mount / "out").symlink_to("../../../../hello")
    (mount / "abs").symlink_to("/hello")
    for path in ("/../../hello", "out", "abs"):
        assert (mount / path).read_bytes() == b"from the image\n"
    assert not (mount / "proc/self").exists()


def test_names_that_are_not_utf8_survive(mount: tane.Mount) -> None:
    name = os.fsdecode(b"\xff\xfe")
    (mount / name).write_bytes(b"odd")
    assert name in mount.listdir()
    assert (mount / name).read_bytes() == b"odd"


def test_a_path_is_no_path_of_the_host(
    mount: tane.Mount, make_image: MakeImage
) -> None:
    other_image = make_image(name="other.img", mib=8)
    with pytest.raises(TypeError):
        open(mount / "hello")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(mount / "hello")
    with (
        tane.open(other_image) as other,
        pytest.raises(ValueError, match="another mount"),
    ):
        other.read_bytes(mount / "hello")
