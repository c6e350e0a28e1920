#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A tree with everything a Linux file system can hold, and a way to compare.

    tree.py make DIR [--files N] [--big MIB] [--seed N]
        fills a new directory: hard links, symlinks, extended attributes, ACLs,
        capabilities, sparse and large files, device nodes (as root), odd names,
        times to the nanosecond, and N small files. The same seed makes the same
        tree.
    tree.py manifest DIR [--without WORD,...]
        prints one JSON line per entry, in order: path, type, mode, uid, gid,
        mtime, size, hard-link group, attributes, holes, SHA-256. Two trees are
        equal if their manifests are. --without leaves out fields, for file
        systems or users that cannot have them (owner, mtime, xattrs, holes,
        devices, dir-mtime).
"""

import argparse
import errno
import hashlib
import json
import os
import random
import socket
import stat
import struct
import sys

BLOCK = 4096
# 2001-09-09 01:46:40 UTC: any fixed time serves.
EPOCH_NS = 1_000_000_000 * 10**9


class Maker:
    def __init__(self, root, seed):
        self.root = os.fsencode(root)
        self.random = random.Random(seed)
        self.is_root = os.geteuid() == 0
        self.directories = []

    def path(self, name):
        return os.path.join(self.root, os.fsencode(name))

    def finish(self, path, mode=None, owner=None):
        """Owner, mode and an exact time, in the order that keeps all three."""
        if owner and self.is_root:
            os.chown(path, *owner, follow_symlinks=False)
        if mode is not None:
            os.chmod(path, mode)
        ns = EPOCH_NS + self.random.randrange(10**18)
        os.utime(path, ns=(ns, ns + 1), follow_symlinks=False)

    def directory(self, name, mode=0o755, owner=None):
        path = self.path(name)
        parent = os.path.dirname(os.fsencode(name))
        if parent and not os.path.isdir(self.path(parent)):
            self.directory(parent)
        os.makedirs(path, exist_ok=True)
        self.directories.append((path, mode, owner))
        return path

    def file(self, name, data=b"", mode=0o644, owner=None, xattrs=()):
        path = self.path(name)
        with open(path, "wb") as f:
            f.write(data)
        if owner and self.is_root:
            os.chown(path, *owner)
        self.attributes(path, xattrs)
        self.finish(path, mode)
        return path

    def attributes(self, path, xattrs, follow=True):
        for name, value in xattrs:
            try:
                os.setxattr(path, name, value, follow_symlinks=follow)
            except OSError as e:
                if e.errno not in (errno.ENOTSUP, errno.EPERM):
                    raise

    def small_files(self, count):
        for i in range(count):
            if i % 500 == 0:
                where = f"many/{i // 500:03}/deeper"
                self.directory(f"many/{i // 500:03}")
                self.directory(where)
            size = self.random.choice([0, 1, 100, 1000, 4095, 4096, 4097, 9000])
            data = self.random.randbytes(size)
            self.file(f"{where}/file{i:05}", data, self.random.choice([0o644, 0o600, 0o755]))

    def links(self):
        self.directory("links/elsewhere")
        first = self.file("links/first", b"one file, four names\n")
        for name in ("links/second", "links/elsewhere/third", "fourth"):
            os.link(first, self.path(name))
        # Linking does not change these times, but the directories' it does.
        targets = {
            "relative": b"first",
            "up": b"../many",
            "absolute": b"/etc/passwd",
            "dangling": b"no/such/file",
            "long": b"x/" * 1500,
            "bytes": b"\xff\xfe",
        }
        for name, target in targets.items():
            path = self.path(f"links/{name}")
            os.symlink(target, path)
            self.finish(path)
        os.link(self.path("links/dangling"), self.path("links/dangling2"), follow_symlinks=False)

    def modes(self):
        self.directory("modes")
        for mode in (0o000, 0o400, 0o111, 0o777, 0o4755, 0o2755, 0o6711, 0o1644):
            self.file(f"modes/{mode:04o}", b"%o" % mode, mode)
        self.directory("modes/sticky", 0o1777)
        self.directory("modes/setgid", 0o2775, (0, 50))
        self.file("modes/setgid/inside", b"x")
        self.directory("modes/closed", 0o555)
        self.file("modes/closed/inside", b"x")
        self.file("modes/owned", b"x", 0o640, (1000, 1001))
        self.file("modes/owned setuid", b"x", 0o4711, (1000, 1001))
        self.file("modes/large ids", b"x", 0o600, (4_000_000_000, 70_000))

    def xattrs(self):
        self.directory("xattrs")
        self.file("xattrs/user", b"x", xattrs=[("user.a", b"1"), ("user.empty", b"")])
        self.file("xattrs/binary", b"x", xattrs=[("user.b", bytes(range(256)))])
        self.file("xattrs/large", b"x", xattrs=[("user.l", self.random.randbytes(2500))])
        path = self.directory("xattrs/directory")
        self.attributes(path, [("user.d", b"directory")])
        link = self.path("xattrs/link")
        os.symlink("user", link)
        self.attributes(link, [("trusted.link", b"on a symlink")], follow=False)
        self.finish(link)
        # cap_net_raw+ep: VFS_CAP_REVISION_2 with the effective flag.
        cap = struct.pack("<IIIII", 0x02000001, 1 << 13, 0, 0, 0)
        self.file("xattrs/capability", b"x", 0o755, xattrs=[("security.capability", cap)])
        acl = posix_acl([(1, 6, None), (2, 4, 1000), (4, 4, None), (16, 6, None), (32, 4, None)])
        self.file("xattrs/acl", b"x", 0o664, (1000, 1000),
                  xattrs=[("system.posix_acl_access", acl)])
        path = self.directory("xattrs/default acl", 0o775)
        default = posix_acl([(1, 7, None), (2, 5, 1000), (4, 5, None), (16, 5, None), (32, 0, None)])
        self.attributes(path, [("system.posix_acl_default", default)])
        self.directory("xattrs/default acl/below")
        self.file("xattrs/default acl/inside", b"x", 0o600)

    def sparse(self, big):
        self.directory("sparse")
        cases = {
            "all hole": (1 << 20, []),
            "start": (1 << 20, [0]),
            "end": (1 << 20, [255]),
            "middle": (10 << 20, [500, 501, 1000]),
            "odd size": ((1 << 20) + 123, [100]),
            "huge": (1 << 34, [0, 1 << 20]),
        }
        for name, (size, blocks) in cases.items():
            path = self.path(f"sparse/{name}")
            with open(path, "wb") as f:
                for block in blocks:
                    f.seek(block * BLOCK)
                    f.write(self.random.randbytes(BLOCK))
                f.truncate(size)
            self.finish(path)
        for name, size in (("zeroes", 1 << 20), ("exact", 1 << 20), ("more", (1 << 20) + 1)):
            data = bytes(size) if name == "zeroes" else self.random.randbytes(size)
            self.file(f"sparse/{name}", data)
        path = self.path("sparse/big")
        with open(path, "wb") as f:
            for _ in range(big):
                f.write(self.random.randbytes(1 << 20))
        self.finish(path)

    def names(self):
        self.directory("names")
        for name in (
            b"new\nline", b"tab\tcr\r", b"\xff\xfe not UTF-8", b"-rf", b" space ", b"*?[]",
            "größe 木 🙂".encode(), b"quote'\"`$", b"\x1b[31mred", b"a:b", b"back\\slash",
            b"n" * 255, b".hidden", b"...", b"~",
        ):
            self.file(b"names/" + name, name)
        self.directory(b"names/d\xffr")
        self.file(b"names/d\xffr/f\xff", b"x")
        deep = "names/" + "/".join(["d" * 100] * 20)
        self.directory(deep)
        self.file(deep + "/bottom", b"x")

    def special(self):
        self.directory("special")
        os.mkfifo(self.path("special/fifo"))
        self.finish(self.path("special/fifo"), 0o620)
        with socket.socket(socket.AF_UNIX) as s:
            here = os.getcwd()
            os.chdir(self.path("special"))
            s.bind("socket")
            os.chdir(here)
        self.finish(self.path("special/socket"), 0o600)
        if self.is_root:
            for name, kind, major, minor in (
                ("null", stat.S_IFCHR, 1, 3), ("disk", stat.S_IFBLK, 8, 1),
                ("large", stat.S_IFCHR, 4000, 1_000_000),
            ):
                try:
                    os.mknod(self.path(f"special/{name}"), kind | 0o600, os.makedev(major, minor))
                except PermissionError:
                    return
                self.finish(self.path(f"special/{name}"), 0o640, (0, 6))

    def times(self):
        self.directory("times")
        for name, ns in (("past", -(10**9) + 1), ("epoch", 0), ("last ns", 10**9 - 1),
                         ("2038", (1 << 31) * 10**9 + 999_999_999)):
            path = self.file(f"times/{name}", b"x")
            os.utime(path, ns=(ns, ns))

    def everything(self, files, big):
        self.directory("")
        self.links()
        self.modes()
        self.xattrs()
        self.sparse(big)
        self.names()
        self.special()
        self.times()
        self.small_files(files)
        # Inner directories first: making entries changes the time.
        for path, mode, owner in sorted(self.directories, key=lambda d: -len(d[0])):
            self.finish(path, mode, owner)


def posix_acl(entries):
    """Tag, permissions, id: the kernel's struct posix_acl_xattr."""
    packed = struct.pack("<I", 2)
    for tag, permissions, who in entries:
        packed += struct.pack("<HHI", tag, permissions, 0xFFFFFFFF if who is None else who)
    return packed


TYPES = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "symlink",
         stat.S_IFIFO: "fifo", stat.S_IFSOCK: "socket", stat.S_IFCHR: "char", stat.S_IFBLK: "block"}


def extents(path, size):
    """Where the data is, in blocks."""
    out = []
    fd = os.open(path, os.O_RDONLY)
    try:
        at = 0
        while at < size:
            try:
                start = os.lseek(fd, at, os.SEEK_DATA)
            except OSError as e:
                if e.errno == errno.ENXIO:
                    break
                raise
            at = os.lseek(fd, start, os.SEEK_HOLE)
            out.append([start // BLOCK, -(-at // BLOCK)])
    finally:
        os.close(fd)
    return out


def digest(path, ranges, size):
    """SHA-256 of the data and where it is: a hole equals zeroes."""
    h = hashlib.sha256(str(size).encode())
    zero = bytes(BLOCK)
    with open(path, "rb") as f:
        for start, end in ranges:
            f.seek(start * BLOCK)
            for block in range(start, end):
                data = f.read(BLOCK)
                if data != zero[: len(data)]:
                    h.update(b"%d:" % block)
                    h.update(data)
    return h.hexdigest()


def entry(root, relative, links, without):
    path = os.path.join(root, relative) if relative else root
    s = os.lstat(path)
    kind = TYPES[stat.S_IFMT(s.st_mode)]
    out = {"path": os.fsdecode(relative).encode("utf-8", "backslashreplace").decode(), "type": kind,
           "mode": oct(stat.S_IMODE(s.st_mode))}
    if "owner" not in without:
        out |= {"uid": s.st_uid, "gid": s.st_gid}
    if "mtime" not in without and not (kind == "directory" and "dir-mtime" in without):
        out["mtime"] = s.st_mtime_ns
    if s.st_nlink > 1 and kind != "directory":
        out["same as"] = links.setdefault((s.st_dev, s.st_ino), out["path"])
    if "xattrs" not in without:
        names = os.listxattr(path, follow_symlinks=False)
        xattrs = {n: os.getxattr(path, n, follow_symlinks=False).hex() for n in sorted(names)}
        out |= {"xattrs": xattrs} if xattrs else {}
    if kind == "symlink":
        out["target"] = os.readlink(path).hex()
    elif kind in ("char", "block"):
        out["device"] = [os.major(s.st_rdev), os.minor(s.st_rdev)]
    elif kind == "file":
        ranges = extents(path, s.st_size)
        out |= {"size": s.st_size, "sha256": digest(path, ranges, s.st_size)}
        if "holes" not in without:
            out["data"] = ranges
    return kind, out


def manifest(root, without):
    root = os.fsencode(root)
    links = {}
    pending = [b""]
    while pending:
        relative = pending.pop()
        if relative == b"lost+found":
            continue
        kind, out = entry(root, relative, links, without)
        if not ("devices" in without and kind in ("char", "block")):
            yield out
        if kind == "directory":
            names = sorted(os.listdir(os.path.join(root, relative)), reverse=True)
            pending += [os.path.join(relative, name) for name in names]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    make = verbs.add_parser("make")
    make.add_argument("dir")
    make.add_argument("--files", type=int, default=3000)
    make.add_argument("--big", type=int, default=8, metavar="MIB")
    make.add_argument("--seed", type=int, default=1)
    show = verbs.add_parser("manifest")
    show.add_argument("dir")
    show.add_argument("--without", default="")
    args = parser.parse_args()
    if args.verb == "make":
        os.umask(0)
        os.mkdir(args.dir)
        Maker(args.dir, args.seed).everything(args.files, args.big)
        return
    for line in manifest(args.dir, set(args.without.split(","))):
        print(json.dumps(line, sort_keys=True))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
