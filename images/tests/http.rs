//! Promises about images on web servers: what is read is what the file has, or an
//! error says why not, whatever the server does.

mod common;

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tane_images::{Backend, Image, ImageOptions};
use tane_test_support::http::{Reply, Request, Server};

const MIB: usize = 1 << 20;

/// Bytes that are nowhere the same.
fn file(len: usize) -> Vec<u8> {
    let words = 0..(len as u64).div_ceil(8);
    let mix = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    let mut bytes: Vec<u8> = words.flat_map(mix).collect();
    bytes.truncate(len);
    bytes
}

fn open(url: &str) -> io::Result<Image> {
    ImageOptions::new().open(url)
}

fn backend(url: &str) -> Arc<dyn Backend> {
    open(url).unwrap_or_else(|e| panic!("{e}")).backend
}

fn read(disk: &dyn Backend, at: u64, len: usize) -> Vec<u8> {
    common::read(disk, at, len).unwrap_or_else(|e| panic!("{len} bytes at {at}: {e}"))
}

/// An error that names the address, and says this.
#[track_caller]
fn says<T>(result: io::Result<T>, url: &str, text: &str) {
    let error = result.err().expect("an error").to_string();
    assert!(error.starts_with(&format!("{url}: ")), "{error}");
    assert!(error.contains(text), "{error}");
}

#[test]
fn any_range_reads_as_the_file_has_it() {
    let bytes = file(3 * MIB + 777);
    let server = Server::of(bytes.clone());
    let disk = backend(&server.url("disk"));
    assert_eq!(disk.size(), bytes.len() as u64);
    assert!(disk.read_only());
    let mut at = 1;
    for len in [1, 511, 65_536, 100_000, 1_500_000, 7, 65_537] {
        for _ in 0..5 {
            at = (at * 48_271) % (bytes.len() - len);
            assert!(read(&*disk, at as u64, len) == bytes[at..at + len]);
        }
    }
    assert!(read(&*disk, 0, bytes.len()) == bytes);
}

#[test]
fn reading_on_takes_far_fewer_requests_than_blocks() {
    let bytes = file(16 * MIB);
    let server = Server::of(bytes.clone());
    let disk = backend(&server.url("disk"));
    for (i, wanted) in bytes.chunks(32 << 10).enumerate() {
        assert!(read(&*disk, (i * (32 << 10)) as u64, wanted.len()) == wanted);
    }
    assert!(server.requests() < 32, "{} requests", server.requests());
    // And once more from memory.
    let before = server.requests();
    assert!(read(&*disk, 5, 8 * MIB) == bytes[5..5 + 8 * MIB]);
    assert_eq!(server.requests(), before);
}

#[test]
fn a_large_read_asks_for_several_parts_at_once() {
    let bytes = file(8 * MIB);
    let (inside, content) = (AtomicUsize::new(0), bytes.clone());
    let server = Server::new(move |request| {
        // Each waits for a second one; alone, it would wait in vain.
        if request
            .range()
            .is_some_and(|(first, last)| last - first > 65_536)
        {
            inside.fetch_add(1, Ordering::SeqCst);
            let two = || inside.load(Ordering::SeqCst) >= 2;
            tane_test_support::eventually("two requests at once", two);
        }
        Reply::part(&content, request)
    });
    let disk = backend(&server.url("disk"));
    assert!(read(&*disk, 0, bytes.len()) == bytes);
}

#[test]
fn many_threads_read_the_same_and_ask_once() {
    let bytes = file(2 * MIB);
    let asked: Arc<Mutex<HashMap<usize, u32>>> = Arc::default();
    let (content, log) = (bytes.clone(), asked.clone());
    let server = Server::new(move |request| {
        let (first, last) = request.range().expect("a range");
        let mut log = log.lock().expect("the log");
        (first / 65536..=last / 65536).for_each(|block| *log.entry(block).or_default() += 1);
        Reply::part(&content, request)
    });
    let disk = backend(&server.url("disk"));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert!(read(&*disk, 0, bytes.len()) == bytes));
        }
    });
    let asked = asked.lock().expect("the log");
    assert_eq!(asked.len(), 32);
    assert!(asked.values().all(|times| *times == 1), "{asked:?}");
}

/// Each of these happens to every part once.
#[test]
fn what_passes_is_tried_again() {
    type Trouble = fn(Reply) -> Reply;
    let troubles: [(&str, Trouble); 4] = [
        ("cut", |reply| Reply {
            cut: Some(reply.body.len() / 2),
            ..reply
        }),
        ("ends before it begins", |reply| Reply {
            cut: Some(0),
            ..reply
        }),
        ("503", |_| Reply::status(503).header("Retry-After: 0")),
        ("silent", |_| Reply {
            silent: true,
            ..Reply::default()
        }),
    ];
    for (name, trouble) in troubles {
        let bytes = file(4 * MIB);
        let content = bytes.clone();
        let met = Mutex::new(HashSet::new());
        let server = Server::new(move |request| {
            let reply = Reply::part(&content, request).header("ETag: \"x\"");
            // However a part is cut, its end stays.
            let end = request.range().expect("a range").1;
            match met.lock().expect("what was met").insert(end) {
                true => trouble(reply),
                false => reply,
            }
        });
        let mut options = ImageOptions::new();
        options.timeout(Duration::from_millis(300));
        let disk = options.open(server.url("disk"));
        let disk = disk.unwrap_or_else(|e| panic!("{name}: {e}")).backend;
        assert!(read(&*disk, 0, bytes.len()) == bytes, "{name}");
    }
}

#[test]
fn what_does_not_pass_is_given_up_with_its_reason() {
    let bytes = file(MIB);
    for (reply, reason) in [
        (503, "answers 503 (Service Unavailable); given up after 5"),
        (404, "has vanished"),
        (403, "does not permit"),
        (500, "answers 500"),
    ] {
        let (content, opened) = (bytes.clone(), Arc::new(AtomicBool::new(false)));
        let later = opened.clone();
        let server = Server::new(move |request| match later.load(Ordering::SeqCst) {
            false => Reply::part(&content, request),
            true => Reply::status(reply),
        });
        let url = server.url("disk");
        let disk = backend(&url);
        opened.store(true, Ordering::SeqCst);
        let mut to = vec![0; 4096];
        let result = disk.read(&[tane_images::buffer_mut(&mut to)], 500_000);
        says(result, &url, reason);
        // What was read before is there.
        assert!(read(&*disk, 0, 4096) == bytes[..4096]);
    }
    for (status, reason) in [
        (404, "no such file"),
        (401, "name and password"),
        (418, "answers 418"),
    ] {
        let server = Server::new(move |_| Reply::status(status));
        let url = server.url("disk");
        says(open(&url), &url, reason);
        assert_eq!(server.requests(), 1, "{status} was tried again");
    }
    let gone = Server::of(Vec::new()).url("disk");
    says(open(&gone), &gone, "connection refused");
    says(
        open("http://none.invalid/x"),
        "http://none.invalid/x",
        "no host",
    );
}

/// Never a mixture of two files.
#[test]
fn a_file_that_changes_on_the_server_is_an_error() {
    type Change = fn(&[u8], &Request) -> Reply;
    let changes: [(&str, Change); 4] = [
        ("a server that knows If-Range", |_, request| {
            assert_eq!(request.header("if-range"), Some("\"1\""));
            Reply {
                body: vec![9; MIB],
                ..Reply::status(200).header("ETag: \"2\"")
            }
        }),
        ("one that does not", |_, request| {
            Reply::part(&[9; MIB], request).header("ETag: \"2\"")
        }),
        ("one that lost its tail", |bytes, request| {
            Reply::part(&bytes[..MIB / 2], request).header("ETag: \"1\"")
        }),
        ("one that lost more", |bytes, request| {
            Reply::part(&bytes[..MIB / 16], request).header("ETag: \"1\"")
        }),
    ];
    for (name, change) in changes {
        let bytes = file(MIB);
        let (content, opened) = (bytes.clone(), Arc::new(AtomicBool::new(false)));
        let later = opened.clone();
        let server = Server::new(move |request| match later.load(Ordering::SeqCst) {
            false => Reply::part(&content, request).header("ETag: \"1\""),
            true => change(&content, request),
        });
        let url = server.url("disk");
        let disk = backend(&url);
        opened.store(true, Ordering::SeqCst);
        let mut to = vec![0; 4096];
        let result = disk.read(&[tane_images::buffer_mut(&mut to)], 300_000);
        says(result, &url, "has changed on the server");
        assert!(to == vec![0; 4096], "{name}");
    }
}

#[test]
fn a_weak_tag_is_not_used_where_bytes_count() {
    let bytes = file(MIB);
    let content = bytes.clone();
    let date = "Mon, 02 Nov 2026 10:00:00 GMT";
    let server = Server::new(move |request| {
        let validator = (request.number > 0).then_some(date);
        assert_eq!(request.header("if-range"), validator);
        Reply::part(&content, request)
            .header("ETag: W/\"1\"")
            .header(format!("Last-Modified: {date}"))
    });
    let disk = backend(&server.url("disk"));
    assert!(read(&*disk, 0, MIB) == bytes);
}

/// What a server without ranges says of the file.
#[derive(Clone, Copy)]
enum Says {
    Length,
    Nothing,
}

fn without_ranges(bytes: Vec<u8>, says: Says, cut: Option<usize>) -> Server {
    Server::new(move |_| Reply {
        body: bytes.clone(),
        unmeasured: matches!(says, Says::Nothing),
        cut,
        ..Reply::status(200)
    })
}

#[test]
fn a_server_without_ranges_has_its_file_downloaded_and_that_is_told() {
    let bytes = file(MIB + 5);
    let server = without_ranges(bytes.clone(), Says::Length, None);
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let to = told.clone();
    let mut options = ImageOptions::new();
    options.notice(move |text| to.lock().expect("what was told").push(text.to_owned()));
    let url = server.url("disk");
    let disk = options.open(&url).expect("opens").backend;
    assert!(read(&*disk, 0, bytes.len()) == bytes);
    let told = told.lock().expect("what was told");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with(&format!("{url}: the server does not send parts")));
    assert!(told[0].contains(&bytes.len().to_string()), "{told:?}");
}

#[test]
fn a_download_without_its_end_is_an_error() {
    let server = without_ranges(file(MIB), Says::Length, Some(MIB / 2));
    let url = server.url("disk");
    says(open(&url), &url, "too early");
    // Where the end of the connection would be all there is to tell.
    let server = without_ranges(file(MIB), Says::Nothing, None);
    let url = server.url("disk");
    says(open(&url), &url, "nor says how long it is");
}

#[test]
fn nonsense_from_a_server_is_an_error() {
    for header in [
        "X: y",
        "Content-Range: bytes 0-65535/*",
        "Content-Range: bytes 4096-69631/1048576",
        "Content-Range: bytes 0-65535/1000",
        "Content-Range: bytes 9-3/1048576",
        "Content-Range: bytes 0-18446744073709551615/18446744073709551615",
    ] {
        let server = Server::new(move |_| Reply {
            body: vec![0; 65536],
            ..Reply::status(206).header(header)
        });
        let url = server.url("disk");
        says(open(&url), &url, "download it first");
    }
    let packed =
        |request: &Request| Reply::part(&[0; MIB], request).header("Content-Encoding: gzip");
    let server = Server::new(packed);
    let url = server.url("disk");
    says(open(&url), &url, "compresses");
    let server = Server::of(Vec::new());
    let url = server.url("disk");
    says(open(&url), &url, "is empty");
}

#[test]
fn redirects_are_followed_and_take_the_range_along_but_no_login() {
    let bytes = file(MIB);
    let content = bytes.clone();
    let other = Server::new(move |request| {
        assert_eq!(request.header("authorization"), None);
        assert!(request.range().is_some());
        Reply::part(&content, request)
    });
    let to = other.url("there");
    let server = Server::new(move |request| {
        // "me:p@ss", in base64.
        assert_eq!(request.header("authorization"), Some("Basic bWU6cEBzcw=="));
        Reply::status(302).header(format!("Location: {to}"))
    });
    let url = server.url("disk").replace("//", "//me:p%40ss@");
    assert!(read(&*backend(&url), 0, MIB) == bytes);
    let round = Server::new(|_| Reply::status(302).header("Location: /again"));
    let url = round.url("disk");
    says(open(&url), &url, "redirects");
}

#[test]
fn a_redirect_does_not_lead_to_other_machines_of_the_network_or_services_of_a_cloud() {
    for to in ["10.255.255.1", "169.254.169.254", "[fe80::1]", "[fd00::1]"] {
        let there = format!("Location: http://{to}/secret");
        let server = Server::new(move |_| Reply::status(302).header(&there));
        let url = server.url("disk");
        says(open(&url), &url, &format!("leads to {to}"));
        assert_eq!(server.requests(), 1, "it is not asked again");
    }
}

#[test]
fn a_login_is_in_no_message() {
    let server = Server::new(|_| Reply::status(401));
    let url = server.url("disk");
    let with_login = url.replace("//", "//me:secret@");
    says(open(&with_login), &url, "another name and password");
    let mut options = ImageOptions::new();
    let (_, login) = tane_images::Login::take(&with_login).expect("a login");
    assert!(!format!("{:?}", options.login(login)).contains("secret"));
}

#[test]
fn an_image_on_a_server_cannot_be_written() {
    let server = Server::of(file(MIB));
    let url = server.url("disk");
    let mut options = ImageOptions::new();
    says(options.write(true).open(&url), &url, "--overlay");
    let disk = options.overlay_in_memory(true).open(&url).expect("opens");
    let data = [7; 512];
    let write = disk.backend.write(&[tane_images::buffer(&data)], 4096);
    write.expect("is taken");
    assert_eq!(read(&*disk.backend, 4096, 512), data);
}

/// A flat VMDK is a text that names the file with the data.
#[test]
fn a_container_may_name_files_beside_it_and_nowhere_else() {
    let bytes = file(MIB);
    let text = |name: &str| {
        let text = "# Disk DescriptorFile\nversion=1\nCID=fffffffe\nparentCID=ffffffff\n\
                    createType=\"monolithicFlat\"\nRW 2048 FLAT \"NAME\" 0\n";
        text.replace("NAME", name).into_bytes()
    };
    for (name, target) in [("d flat.img", Some("/sub/d%20flat.img")), ("../d", None)] {
        let (content, text) = (bytes.clone(), text(name));
        let server = Server::new(move |request| match request.target.as_str() {
            "/sub/disk.vmdk" => Reply::part(&text, request),
            other if Some(other) == target => Reply::part(&content, request),
            other => panic!("{other} was asked for"),
        });
        let url = server.url("sub/disk.vmdk");
        match target {
            Some(_) => assert!(read(&*backend(&url), 0, MIB) == bytes),
            None => says(open(&url), &url, "not beside it"),
        }
    }
}
