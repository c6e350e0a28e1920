//! Promises of `tane make-image` about container images. What is in them is said by
//! umoci, which unpacks them; skopeo and Python write them.

use crate::common::make::*;
use crate::common::*;

/// An image of what umoci unpacks of oci:a, and skopeo; None where they are not.
fn reference(scratch: &Scratch) -> Option<std::ffi::OsString> {
    let mut umoci = tane_test_support::tool("umoci", "umoci")?;
    let skopeo = tane_test_support::tool("skopeo", "skopeo")?;
    let unpack = ["unpack", "--rootless", "--image", "oci:a", "bundle"];
    succeed(umoci.args(unpack).current_dir(scratch.path()));
    make(scratch, "bundle/rootfs", "reference.img", &[]);
    Some(skopeo.get_program().to_owned())
}

fn command(scratch: &Scratch, source: &str, image: &str, more: &[&str]) -> std::process::Command {
    let mut tane = scratch.tane();
    let args = ["make-image", "--owner=root", "--epoch", EPOCH];
    tane.args(args).args(more).args([source, image]);
    tane
}

fn make(scratch: &Scratch, source: &str, image: &str, more: &[&str]) -> String {
    text(&succeed(&mut command(scratch, source, image, more)).stderr)
}

/// Why there is none.
fn refused(scratch: &Scratch, source: &str, more: &[&str]) -> String {
    let failed = exit(&mut command(scratch, source, "none.img", more), 1);
    assert!(!scratch.join("none.img").exists());
    text(&failed.stderr)
}

fn assert_holds(scratch: &Scratch, image: &str, name: &str, content: &str) {
    let file = format!("{image}:/{name}");
    let read = succeed(scratch.tane().args(["cat", &file])).stdout;
    assert_eq!(text(&read), content, "{file}");
}

const ONE: &str = "
l = Layout()
l.add('app:a', l.image([LOWER, UPPER]))
l.write('oci')
";

#[test]
fn every_shape_of_a_container_image_gives_what_umoci_unpacks() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    container_images(&s, ONE);
    let more = "
l.save('saved.tar', True)
write('legacy.tar', legacy([('app:1', [LOWER, UPPER])]))
for pack in ['', '+zstd']:
    l = Layout()
    l.add('app:1', l.image([LOWER, UPPER], pack=pack))
    l.save('layers%s.tar' % pack)
";
    container_images(&s, &(ONE.to_owned() + more));
    let Some(skopeo) = reference(&s) else {
        return;
    };
    for to in [
        "oci-archive:oci.tar:app:1",
        "docker-archive:docker.tar:app:1",
    ] {
        let mut skopeo = std::process::Command::new(&skopeo);
        let copy = ["--insecure-policy", "copy", "-q", "oci:oci:a", to];
        succeed(skopeo.args(copy).current_dir(s.path()));
    }
    for (program, end) in [("gzip", "gz"), ("xz", "xz"), ("zstd", "zst")] {
        let shell = format!("{program} -qc saved.tar > saved.tar.{end}");
        succeed(s.tool("sh").args(["-c", &shell]));
    }
    let archives = [
        "oci",
        "saved.tar",
        "legacy.tar",
        "layers.tar",
        "layers+zstd.tar",
        "oci.tar",
        "docker.tar",
        "saved.tar.gz",
        "saved.tar.xz",
        "saved.tar.zst",
    ];
    for (number, source) in archives.iter().enumerate() {
        let image = format!("{number}.img");
        make(&s, source, &image, &[]);
        assert_equal(&s.join("0.img"), &s.join(&image));
    }
    // Identities follow from where the attributes come from, too.
    for image in ["reference", "0"] {
        let (tar, image) = (format!("{image}.tar"), format!("{image}.img:/"));
        succeed(s.tane().args(["tar", "create", &tar, &image]));
    }
    assert_equal(&s.join("reference.tar"), &s.join("0.tar"));
    assert_sound(&s.join("0.img"));
    let mut piped = command(&s, "-", "piped.img", &[]);
    succeed(piped.stdin(std::fs::File::open(s.join("saved.tar")).expect("opens")));
    assert_equal(&s.join("0.img"), &s.join("piped.img"));
}

#[test]
fn of_several_container_images_none_is_taken_unasked() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let script = "
l = Layout()
for name in ['a:1', 'b:1']:
    l.add(name, l.image([LOWER, tar(('name', name.encode()))]))
l.write('oci')
l.save('oci.tar')
write('docker.tar', legacy([(n, [LOWER, tar(('name', n.encode()))]) for n in ['a:1', 'b:1']]))
write('plain.tar', {'name': b'plain'})
";
    container_images(&s, script);
    for source in ["oci", "oci.tar", "docker.tar"] {
        let said = refused(&s, source, &[]);
        for part in ["several images", "--ref", "a:1", "b:1", "sha256:"] {
            assert!(said.contains(part), "{source}: {said}");
        }
        let said = refused(&s, source, &["--ref=c"]);
        assert!(
            said.contains("no image is called c") && said.contains("b:1"),
            "{said}"
        );
        for wanted in ["a", "b:1"] {
            let name = &wanted[..1];
            make(&s, source, "out.img", &["--force", "--ref", wanted]);
            assert_holds(&s, "out.img", "name", &format!("{name}:1"));
        }
    }
    let said = refused(&s, "plain.tar", &["--ref=a"]);
    assert!(said.contains("is no container image"), "{said}");
}

#[test]
fn of_several_kinds_of_processor_the_kernels_own_is_taken_and_told() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let script = "
l = Layout()
kind = lambda name: ('linux/' + name, [tar(('kind', name.encode()))])
l.add('a:1', l.platforms([kind('arm64'), kind('amd64')]))
l.save('both.tar')
l = Layout()
l.add('a:1', l.platforms([kind('arm64'), kind('s390x')]))
l.save('neither.tar')
";
    container_images(&s, script);
    assert_eq!(make(&s, "both.tar", "a.img", &[]), "");
    let said = make(&s, "both.tar", "a.img", &["--force", "-v"]);
    assert!(
        said.contains("for linux/amd64 of those for linux/arm64"),
        "{said}"
    );
    assert_holds(&s, "a.img", "kind", "amd64");
    let said = refused(&s, "neither.tar", &[]);
    let line = said.lines().find(|line| line.contains("linux/s390x"));
    let digest = line.and_then(|line| line.split_whitespace().last());
    let digest = digest.expect("a digest of each");
    make(&s, "neither.tar", "b.img", &["--ref", digest]);
    assert_holds(&s, "b.img", "kind", "s390x");
}

#[test]
fn a_container_image_that_lacks_something_or_lies_gives_an_error_and_no_image() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let script = "
l = Layout()
l.add('a:1', l.image([LOWER, UPPER]))
layer = next(n for n, data in l.files.items() if data[:2] == b'\\x1f\\x8b')
def broken(name, **change):
    files = l.all()
    files.update(change)
    write(name + '.tar', {n: d for n, d in files.items() if d is not None})
broken('missing', **{layer: None})
broken('digest', **{layer: gzip.compress(LOWER[:-512])[:0] + bytes(len(l.files[layer]))})
broken('size', **{layer: l.files[layer] + b'0'})
broken('text', **{'index.json': b'{'})
broken('none', **{'index.json': b'{\"manifests\": []}'})
broken('long', **{'index.json': b' ' * (5 << 20) + l.all()['index.json']})
first = dict(sorted(l.all().items(), reverse=True))
short = tar(*first.items())
open('short.tar', 'wb').write(short[:short.index(b'\\x1f\\x8b') + 100])

def layers(name, *layers, **more):
    l = Layout()
    l.add('a:1', l.image(list(layers), **more))
    l.save(name + '.tar')
layers('no-tar', b'no tar archive, but long enough' * 40)
layers('cut', LOWER[:3000])
l = Layout()
image = l.image([LOWER])
for depth in range(20):
    image = l.json({'manifests': [image]}, 'index.v1+json')
l.add('a:1', image)
l.save('deep.tar')

def changed(name, change):
    files = legacy([('a:1', [LOWER, UPPER])])
    images = json.loads(files['manifest.json'])
    change(files, images[0])
    files['manifest.json'] = json.dumps(images).encode()
    write(name + '.tar', files)
changed('saved-digest', lambda f, i: f.update({i['Layers'][0]: UPPER}))
changed('saved-fewer', lambda f, i: i['Layers'].pop())
changed('saved-config', lambda f, i: f.update({i['Config']: b'{}'}))
link = lambda to: {'type': tarfile.SYMTYPE, 'linkname': to}
changed('saved-loop', lambda f, i: f.update({i['Layers'][0]: link('layer.tar')}))
changed('saved-out', lambda f, i: f.update({i['Layers'][0]: link('../../../../etc/passwd')}))
";
    container_images(&s, script);
    for (name, why) in [
        ("missing", "is not there"),
        ("digest", "another digest"),
        ("size", "is listed with"),
        ("text", "index.json"),
        ("none", "lists no images"),
        ("long", "index.json: has 5"),
        ("short", "short.tar"),
        ("no-tar", "is no tar archive"),
        ("cut", "blobs/sha256"),
        ("deep", "too many others"),
        ("saved-digest", "another digest"),
        ("saved-fewer", "digests of 2 layers"),
        ("saved-config", "another digest"),
        ("saved-loop", "leads nowhere"),
        ("saved-out", "leads out"),
    ] {
        let said = refused(&s, &format!("{name}.tar"), &[]);
        assert!(said.contains(why), "{name}: {said}");
    }
    let left = std::fs::read_dir(s.path()).expect("a directory").count();
    assert_eq!(left, 15);
}

#[test]
fn entries_of_a_layer_that_lead_out_of_the_image_are_errors() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let script = "
l = Layout()
l.add('a:1', l.image([LOWER, tar(('../../escaped', b'x'))]))
l.save('out.tar')
";
    container_images(&s, script);
    let said = refused(&s, "out.tar", &[]);
    assert!(
        said.contains("../../escaped") && said.contains("leads out"),
        "{said}"
    );
}

#[test]
fn a_layer_that_fills_disks_is_given_up() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    // 300 MiB of nothing but ones take some KiB.
    let script = "
info = tarfile.TarInfo('bomb')
info.size = 300 << 20
with open('bomb', 'wb') as out:
    pack = subprocess.Popen(['zstd', '-q'], stdin=subprocess.PIPE, stdout=out)
    pack.stdin.write(info.tobuf())
    for _ in range(300):
        pack.stdin.write(b'1' * (1 << 20))
    pack.stdin.close()
    assert pack.wait() == 0
PACK['+zstd'] = lambda data: open('bomb', 'rb').read()
l = Layout()
l.add('a:1', l.image([b''], pack='+zstd'))
l.save('bomb.tar')
# Its digest is wrong: who reads all of it says so.
write('saved.tar', legacy([('a:1', [open('bomb', 'rb').read()])]))
";
    container_images(&s, script);
    for archive in ["bomb.tar", "saved.tar"] {
        let said = refused(&s, archive, &[]);
        assert!(said.contains("too much for its size"), "{archive}: {said}");
    }
}

#[test]
fn a_tar_that_only_looks_like_a_container_image_is_one_of_files() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let script = "
write('index.tar', {'index.json': b'{\"manifests\": []}', 'blobs/x': b'x'})
write('manifest.tar', {'manifest.json': b'[{\"name\": \"of a program\"}]'})
write('mark.tar', {'oci-layout': b'{}'})
";
    container_images(&s, script);
    for (name, file) in [
        ("index", "index.json"),
        ("manifest", "manifest.json"),
        ("mark", "oci-layout"),
    ] {
        let image = format!("{name}.img");
        make(&s, &format!("{name}.tar"), &image, &[]);
        succeed(s.tane().args(["cat", &format!("{image}:/{file}")]));
    }
}

#[test]
fn owners_of_a_container_images_files_are_those_of_its_layers() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let script = "
l = Layout()
l.add('a:1', l.image([tar(('file', {'data': b'x', 'uid': 7, 'gid': 70000}))]))
l.save('a.tar')
";
    container_images(&s, script);
    succeed(as_nobody(&s).args(["make-image", "a.tar", "a.img"]));
    let mut debugfs = sbin("debugfs");
    let stat = succeed(debugfs.args(["-R", "stat /file"]).arg(s.join("a.img"))).stdout;
    let stat = text(&stat);
    assert!(
        stat.contains("User:     7") && stat.contains("Group: 70000"),
        "{stat}"
    );
}
