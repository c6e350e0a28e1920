# SPDX-License-Identifier: GPL-2.0-only
"""Promises about kernels, images and mounts."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

import pytest
from conftest import MakeImage, fsck, run

import tane


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_an_image_opens_in_one_step(image: Path) -> None:
    with tane.open(image) as mount:
        assert (mount / "hello").read_text() == "from the image\n"
        assert sorted(p.name for p in mount.root.iterdir()) == [
            "dir",
            "hello",
            "lost+found",
        ]


def test_reading_changes_no_byte(image: Path) -> None:
    before = digest(image)
    with tane.open(image) as mount:
        mount.read_bytes("/hello")
        with pytest.raises(OSError, match="Read-only") as refused:
            (mount / "new").write_bytes(b"")
        assert refused.value.errno == errno.EROFS
    assert digest(image) == before


def test_what_was_written_is_there_after_close(image: Path) -> None:
    with tane.open(image, mode="rw") as mount:
        (mount / "new").write_text("kept")
    fsck(image)
    assert run("debugfs", "-R", "cat /new", image) == "kept"


def test_a_selector_chooses_the_partition(image: Path, tmp_path: Path) -> None:
    disk = tmp_path / "partitioned.img"
    with disk.open("wb") as file:
        file.truncate(68 << 20)
        file.seek(446)
        # Two entries of an MBR, at 1 MiB and at 34 MiB, 32 MiB each.
        for start in (2048, 34 * 2048):
            entry = bytes([0, 0, 0, 0, 0x83, 0, 0, 0])
            file.write(
                entry + start.to_bytes(4, "little") + (65536).to_bytes(4, "little")
            )
        file.seek(510)
        file.write(b"\x55\xaa")
        file.seek(34 << 20)
        file.write(image.read_bytes())
    with pytest.raises(tane.SelectorError) as refused:
        tane.open(disk, "1")
    assert refused.value.errno == errno.ENXIO
    assert [v.selector for v in refused.value.choices] == [None, "1", "2"]
    for at in ("2", 2, "label=test"):
        with tane.open(disk, at) as mount:
            assert mount.read_bytes("hello") == b"from the image\n"
    with tane.open(f"{disk}@2") as mount:
        assert mount.selector == "2"
        assert (mount / "hello").address == f"{disk}@2:/hello"
    with tane.open(disk) as mount:
        assert mount.selector is None
    with disk.open("r+b") as file:
        file.seek(1 << 20)
        file.write(image.read_bytes())
    with pytest.raises(tane.SelectorError) as several:
        tane.open(disk)
    assert several.value.errno == errno.ENOTUNIQ
    assert "choose one: 1, 2" in str(several.value)
    with pytest.raises(ValueError, match="not a selector"):
        tane.open(disk, "two")
    with pytest.raises(TypeError, match="a str or an int"):
        tane.open(disk, True)


def test_containers_are_told_by_their_content(image: Path, tmp_path: Path) -> None:
    qcow2 = tmp_path / "disk.qcow2"
    run("qemu-img", "convert", "-O", "qcow2", image, qcow2)
    with tane.open(qcow2) as mount:
        assert mount.read_bytes("hello") == b"from the image\n"
    overlay = tmp_path / "over.qcow2"
    before = digest(qcow2)
    with tane.open(qcow2, mode="rw", overlay=overlay) as mount:
        (mount / "hello").write_text("changed")
    assert digest(qcow2) == before
    with tane.open(qcow2, overlay=overlay) as mount:
        assert mount.read_bytes("hello") == b"changed"
    with tane.open(qcow2, mode="rw", overlay=":memory:", jail=False) as mount:
        (mount / "hello").write_text("for now")
        assert mount.read_bytes("hello") == b"for now"
    with tane.open(qcow2, mode="rw", overlay=":memory:") as mount:
        assert mount.read_bytes("hello") == b"from the image\n"
        (mount / "hello").write_text("for now")
        assert mount.read_bytes("hello") == b"for now"
    assert digest(qcow2) == before
    assert not Path(":memory:").exists()
    with pytest.raises(OSError, match="no such image format"):
        tane.open(qcow2, format="nonsense")


def test_an_encrypted_volume_takes_its_passphrase(image: Path, tmp_path: Path) -> None:
    disk = tmp_path / "luks.img"
    with disk.open("wb") as file:
        file.truncate(40 << 20)
    key = tmp_path / "key"
    key.write_text("pass phrase")
    run(
        *(
            "cryptsetup",
            "-q",
            "luksFormat",
            "--type",
            "luks1",
            "--pbkdf-force-iterations",
        ),
        *("1000", "--key-file", key, disk),
    )
    with pytest.raises(tane.LockedError) as locked:
        tane.open(disk)
    assert locked.value.errno == errno.ENOKEY
    with tane.Image(disk) as opened:
        assert [v.locked for v in opened.volumes] == [True]
    with pytest.raises(tane.LockedError):
        tane.open(disk, passphrase="wrong")
    with tane.Image(disk, passphrase=["wrong", b"pass phrase"]) as opened:
        assert [v.kind for v in opened.volumes] == ["disk", "luks"]
        assert not any(v.locked for v in opened.volumes)


FOREIGN = Path(__file__).resolve().parents[2] / "build/foreign/cryptsetup"
STARTUP_KEY = "4381F759-C4F8-4DE0-BB61-FC33A831BDA5"


def test_bitlocker_takes_whatever_opens_it() -> None:
    disk = FOREIGN / "bitlk-aes-xts-128-startup-key.img"
    if not disk.exists():
        pytest.skip("no images of BitLocker: scripts/foreign-images fetches them")
    recovery = "363770-230505-096371-652674-567006-579150-291038-408111"
    startup = (FOREIGN / f"{STARTUP_KEY}.BEK").read_bytes()
    secrets: list[str | bytes] = [recovery, startup]
    for secret in secrets:
        with tane.Image(disk, passphrase=secret) as opened:
            outside, inside = opened.volumes
            assert (outside.fstype, inside.kind) == ("BitLocker", "bitlocker")
            assert (inside.fstype, inside.uuid) == ("ntfs3", "27F7B5DB3754A2A9")
    with pytest.raises(tane.LockedError, match=f"startup key {STARTUP_KEY}.BEK"):
        tane.open(disk, passphrase="wrong")


def test_volumes_are_described(image: Path) -> None:
    with tane.Image(image) as opened:
        (volume,) = opened.volumes
        assert (volume.kind, volume.fstype, volume.label) == ("disk", "ext4", "test")
        assert volume.mountable and volume.size == 32 << 20
        uuid = run("blkid", "-s", "UUID", "-o", "value", image).strip()
        assert volume.uuid == uuid


def test_an_image_is_locked_while_it_is_written(image: Path) -> None:
    with (
        tane.open(image, mode="rw"),
        pytest.raises(OSError, match="in use by another program"),
    ):
        tane.open(image, mode="rw")
    tane.open(image, mode="rw").close()


def test_a_missing_image_is_file_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        tane.open(tmp_path / "none.img")
    assert missing.value.filename == str(tmp_path / "none.img")
    with pytest.raises(IsADirectoryError):
        tane.open(tmp_path)
    with pytest.raises(FileNotFoundError) as missing:
        tane.open(f"{tmp_path}/none.img:/etc")
    assert missing.value.filename == f"{tmp_path}/none.img"


def test_a_kernel_that_was_halted_says_so(image: Path) -> None:
    with tane.Kernel(memory=128 << 20) as kernel:
        mount = tane.open(image, kernel=kernel)
        assert "Linux version" in kernel.dmesg()
        assert kernel.is_alive
        kernel.halt()
        with pytest.raises(tane.KernelError) as dead:
            mount.read_bytes("hello")
        assert dead.value.errno == errno.ESHUTDOWN
        assert not kernel.is_alive
        assert kernel.last_words() == "halted"
        with pytest.raises(tane.KernelError):
            mount.close()


def test_several_kernels_live_side_by_side(make_image: MakeImage) -> None:
    images = [make_image({"n": b"%d" % n}, f"{n}.img", 8) for n in range(3)]
    mounts = [tane.open(image) for image in images]
    assert [m.read_bytes("n") for m in mounts] == [b"0", b"1", b"2"]
    assert len({id(m.kernel) for m in mounts}) == 3
    for mount in mounts:
        mount.close()


def test_one_kernel_serves_several_images(make_image: MakeImage) -> None:
    with tane.Kernel() as kernel:
        first = tane.open(make_image({"f": b"1"}, "1.img", 8), kernel=kernel)
        second = tane.open(make_image({"f": b"2"}, "2.img", 8), kernel=kernel)
        assert first.read_bytes("f") + second.read_bytes("f") == b"12"
    # Leaving the kernel has closed them.
    with pytest.raises(ValueError, match="closed"):
        first.read_bytes("f")
    first.close()


def test_any_system_call_can_be_made() -> None:
    with tane.Kernel() as kernel:
        assert kernel.syscall(39) == 1  # getpid()
        name = bytearray(6 * 65)
        kernel.syscall(63, name)  # uname()
        assert name.startswith(b"Linux\0")
        with pytest.raises(OSError) as refused:
            kernel.syscall(3, 9999)  # close()
        assert refused.value.errno == errno.EBADF


def test_everything_that_was_opened_is_given_back(image: Path) -> None:
    def count() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))

    tane.open(image).close()
    before = count()
    for _ in range(5):
        with tane.open(image) as mount, mount.open("hello") as file:
            file.read()
    assert count() == before


def test_closing_says_that_files_are_open(image: Path) -> None:
    mount = tane.open(image, mode="rw")
    file = (mount / "f").open("wb", buffering=0)
    with pytest.raises(OSError, match="still open") as busy:
        mount.close()
    assert busy.value.errno == errno.EBUSY
    file.close()
    fsck(image)


def test_a_mount_for_writing_that_is_forgotten_warns(image: Path) -> None:
    mount = tane.open(image, mode="rw")
    with pytest.warns(ResourceWarning, match="unclosed"):
        del mount


def test_addresses_are_taken_apart(image: Path) -> None:
    parse = tane.Address.parse
    assert parse(f"{image}:/a:/b") == (str(image), None, "/a:/b")
    assert parse(f"{image}@2,subvol=x:/a") == (str(image), "2,subvol=x", "/a")
    assert parse(image) == (str(image), None, "/")
    assert parse(image, images_only=False) is None
    assert str(parse(f"{image}@vg/root:/a")) == f"{image}@vg/root:/a"
    odd = image.with_name("a@b.img")
    image.rename(odd)
    assert parse(f"{odd}:/x") == (str(odd), None, "/x")
    with pytest.raises(ValueError, match="not a selector"):
        parse(f"{odd}@two:/x")


@pytest.mark.parametrize("jail", [True, False])
def test_an_image_that_is_cut_off_or_removed_while_open_is_no_more_than_an_error(
    make_image: MakeImage, jail: bool
) -> None:
    content = os.urandom(8 << 20)
    image = make_image({"big": content, "small": b"small"})
    with tane.open(image, jail=jail) as mount:
        assert mount.read_bytes("/small") == b"small"
        os.truncate(image, 1 << 20)
        with pytest.raises(OSError) as raised:
            mount.read_bytes("/big")
        assert raised.value.errno == errno.EIO
    kept = make_image({"big": content}, name="kept.img")
    with tane.open(kept, jail=jail) as mount:
        kept.unlink()
        assert mount.read_bytes("/big") == content


@pytest.mark.parametrize("jail", [True, False])
def test_several_images_are_seen_as_one(make_image: MakeImage, jail: bool) -> None:
    base = make_image({"all": b"base", "d/base": b"base"}, "base.img")
    middle = make_image({"all": b"middle", "d/middle": b"middle"}, "middle.img")
    top = make_image({"all": b"top", "d/top": b"top"}, "top.img")
    before = [image.read_bytes() for image in (base, middle, top)]
    with tane.open(top, lower=[middle, base], jail=jail) as mount:
        assert sorted(mount.listdir("d")) == ["base", "middle", "top"]
        assert (mount / "all").read_bytes() == b"top"
        assert (mount / "d/base").read_bytes() == b"base"
    with tane.open(middle, lower=[base], jail=jail) as mount:
        assert (mount / "all").read_bytes() == b"middle"
    assert [image.read_bytes() for image in (base, middle, top)] == before
    with pytest.raises(OSError, match="can only be read"):
        tane.open(top, mode="rw", lower=[base], jail=jail)
    with pytest.raises(OSError, match="whole file system"):
        tane.open(top, lower=[f"{base}:/d"], jail=jail)
