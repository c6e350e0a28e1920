# SPDX-License-Identifier: GPL-2.0-only
"""Layers, images and layouts as the programs of container images write them."""

import gzip
import hashlib
import io
import json
import os
import subprocess
import tarfile

OCI = 'application/vnd.oci.image.'
TIME = 1600000000


def sha(data):
    return hashlib.sha256(data).hexdigest()


def tar(*entries):
    """Entries are names (of a directory with a slash at its end) with bytes, or with
    attributes of a TarInfo; the attribute pax is for records."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode='w', format=tarfile.PAX_FORMAT) as archive:
        for name, what in entries:
            more = {'data': what} if isinstance(what, bytes) else dict(what)
            data = more.pop('data', b'')
            info = tarfile.TarInfo(name.rstrip('/') or './')
            info.type = tarfile.DIRTYPE if name.endswith('/') else tarfile.REGTYPE
            info.mode = 0o755 if info.isdir() else 0o644
            info.mtime = TIME
            for key, value in more.items():
                setattr(info, {'pax': 'pax_headers'}.get(key, key), value)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


LOWER = tar(
    ('./', {}),
    ('etc/', {}),
    ('etc/passwd', b'root'),
    ('etc/hard', {'type': tarfile.LNKTYPE, 'linkname': 'etc/passwd'}),
    ('etc/shadow', {'data': b'secret', 'mode': 0o600}),
    ('usr/', {}),
    ('usr/bin/', {}),
    ('usr/bin/tool', {'data': b'tool' * 50000, 'mode': 0o4755,
                      'pax': {'SCHILY.xattr.user.note': 'a note'}}),
    ('bin', {'type': tarfile.SYMTYPE, 'linkname': 'usr/bin'}),
    ('var/', {}),
    ('var/old/', {}),
    ('var/old/file', b'old'),
    ('run/', {'mode': 0o1777}),
    ('run/fifo', {'type': tarfile.FIFOTYPE}),
    ('gone/', {}),
    ('gone/file', b'gone'),
    ('becomes-file/', {}),
    ('becomes-file/inside', b'x'),
    ('becomes-dir', b'x'),
    ('.hidden', b'x' * 1000),
)
UPPER = tar(
    ('etc/', {'mode': 0o750}),
    ('etc/passwd', b'another root'),
    ('etc/.wh.shadow', b''),
    ('var/', {}),
    ('var/.wh..wh..opq', b''),
    ('var/new', b'new'),
    ('.wh.gone', b''),
    ('becomes-file', b'file'),
    ('becomes-dir/', {}),
    ('becomes-dir/inside', b'y'),
)


def zstd(data):
    return subprocess.run(['zstd', '-q'], input=data, stdout=subprocess.PIPE, check=True).stdout


PACK = {
    '': lambda data: data,
    '+gzip': lambda data: gzip.compress(data, mtime=0),
    '+zstd': zstd,
}


class Layout:
    """An OCI image layout, in memory."""

    def __init__(self):
        self.files = {'oci-layout': b'{"imageLayoutVersion": "1.0.0"}'}
        self.index = []
        self.saved = []

    def blob(self, data, kind):
        self.files['blobs/sha256/' + sha(data)] = data
        return {'mediaType': OCI + kind, 'digest': 'sha256:' + sha(data), 'size': len(data)}

    def json(self, value, kind):
        return self.blob(json.dumps(value).encode(), kind)

    def image(self, layers, platform='linux/amd64', pack='+gzip', **more):
        """A descriptor of a manifest."""
        os_, machine = platform.split('/')
        config = self.json({
            'os': os_, 'architecture': machine, 'config': {},
            'rootfs': {'type': 'layers', 'diff_ids': ['sha256:' + sha(l) for l in layers]},
        }, 'config.v1+json')
        listed = [self.blob(PACK[pack](l), 'layer.v1.tar' + pack) for l in layers]
        self.last = {
            'Config': 'blobs/sha256/' + config['digest'][7:],
            'Layers': ['blobs/sha256/' + l['digest'][7:] for l in listed],
        }
        manifest = {'schemaVersion': 2, 'mediaType': OCI + 'manifest.v1+json',
                    'config': config, 'layers': listed}
        return dict(self.json(manifest, 'manifest.v1+json'), **more)

    def platforms(self, images):
        """A descriptor of an index of images by platform."""
        listed = []
        for platform, layers in images:
            os_, machine = platform.split('/')
            image = self.image(layers, platform)
            listed.append(dict(image, platform={'os': os_, 'architecture': machine}))
        return self.json({'schemaVersion': 2, 'manifests': listed}, 'index.v1+json')

    def add(self, name, descriptor):
        tag = name.rsplit(':', 1)[-1]
        notes = {'io.containerd.image.name': 'docker.io/library/' + name,
                 'org.opencontainers.image.ref.name': tag}
        self.index.append(dict(descriptor, annotations=notes))
        self.saved.append(dict(self.last, RepoTags=[name]))

    def all(self, is_saved=False):
        files = dict(self.files)
        index = {'schemaVersion': 2, 'manifests': self.index}
        files['index.json'] = json.dumps(index).encode()
        if is_saved:
            files['manifest.json'] = json.dumps(self.saved).encode()
        return files

    def write(self, dir):
        """As a directory."""
        for name, data in self.all().items():
            os.makedirs(os.path.dirname(os.path.join(dir, name)), exist_ok=True)
            with open(os.path.join(dir, name), 'wb') as file:
                file.write(data)

    def save(self, name, is_saved=False):
        """As an archive; is_saved: as docker save does since its version 25."""
        write(name, self.all(is_saved))


def write(name, files):
    with open(name, 'wb') as out:
        out.write(tar(*files.items()))


def legacy(images):
    """The files of an archive as docker save wrote it before its version 25; images are
    pairs of a name and of layers."""
    files, listed = {}, []
    for name, layers in images:
        config = json.dumps({
            'os': 'linux', 'architecture': 'amd64', 'name': name,
            'rootfs': {'type': 'layers', 'diff_ids': ['sha256:' + sha(l) for l in layers]},
        }).encode()
        files[sha(config) + '.json'] = config
        paths = []
        for number, layer in enumerate(layers):
            dir = sha(config + bytes([number]))
            path = dir + '/layer.tar'
            same = next((p for p, data in files.items() if data == layer), None)
            link = {'type': tarfile.SYMTYPE, 'linkname': '../' + same} if same else layer
            files.update({dir + '/VERSION': b'1.0', path: link})
            paths.append(path)
        listed.append({'Config': sha(config) + '.json', 'RepoTags': [name], 'Layers': paths})
    files['manifest.json'] = json.dumps(listed).encode()
    return files
