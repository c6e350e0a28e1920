//! Promises about images that are encrypted as a whole, made by qemu-img.

use crate::common::terminal::Terminal;
use crate::common::*;
use std::process::{Command, Output, Stdio};
use tane_test_support::qemu_luks;

const MIB: u64 = 1 << 20;

/// `image`, a qcow2 with the bytes of `disk`, encrypted by `how` with the passphrase of the
/// file `pw`.
fn encrypt(s: &Scratch, disk: &str, how: &str, image: &str) {
    s.write("pw", b"open sesame\n");
    s.write("pw-bare", b"open sesame");
    let mut qemu = Command::new("qemu-img");
    let secret = ["convert", "--object", "secret,id=s,file=pw-bare"];
    let words = format!("encrypt.format={how},encrypt.key-secret=s");
    qemu.args(secret)
        .args(["-f", "raw", "-O", "qcow2", "-o", &words, disk, image]);
    let output = qemu_luks(qemu.current_dir(s.path()));
    assert!(output.status.success(), "{output:?}");
}

fn refused(command: &mut Command) -> String {
    text(&exit(command, 3).stderr)
}

const LUKS: &str = "luks,encrypt.iter-time=10";

fn with_key(s: &Scratch, args: &str) -> Output {
    let mut tane = s.tane();
    succeed(tane.arg("--passphrase-file=pw").args(args.split(' ')))
}

fn ext4(s: &Scratch) {
    s.write("tree/f", b"data\n");
    s.ext4("disk.raw", Some(&s.join("tree")), 16);
}

#[test]
fn an_encrypted_image_is_read_with_its_passphrase_and_inspect_says_how_it_is_encrypted() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    ext4(&s);
    for (how, name) in [(LUKS, "luks"), ("aes", "aes")] {
        encrypt(&s, "disk.raw", how, "e.qcow2");
        assert_eq!(with_key(&s, "cat e.qcow2:/f").stdout, b"data\n");
        let found = with_key(&s, "inspect --json e.qcow2").stdout;
        let found: serde_json::Value = serde_json::from_slice(&found).expect("JSON");
        crate::common::schema::assert_inspected(&found);
        assert_eq!(found["encrypted"], name);
        assert_eq!(found["layers"][0]["encrypted"], name);
        assert_eq!(found["volumes"][0]["fs"], "ext4");
        let found = text(&with_key(&s, "inspect e.qcow2").stdout);
        assert!(
            found.contains(&format!("qcow2 encrypted by {name}, 16M")),
            "{found}"
        );
    }
}

#[test]
fn a_key_that_is_wrong_or_missing_is_an_error_that_says_so() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    ext4(&s);
    encrypt(&s, "disk.raw", LUKS, "e.qcow2");
    s.write("wrong", b"wrong\n");
    let remedy = "--passphrase-file or --key-file opens it";
    for (args, why) in [
        (&["ls", "e.qcow2:/"][..], "no passphrase was given"),
        (
            &["ls", "e.qcow2:/", "--passphrase-file=wrong"],
            "no passphrase fits",
        ),
        // The whole of a file is not its first line.
        (&["ls", "e.qcow2:/", "--key-file=pw"], "no passphrase fits"),
    ] {
        let told = refused(s.tane().args(args));
        let line = format!("tane: e.qcow2: is encrypted (luks); {why}; {remedy}\n");
        assert_eq!(told, line);
    }
    succeed(s.tane().args(["ls", "e.qcow2:/", "--key-file=pw-bare"]));
}

/// `inner.raw`, a LUKS volume that opens by `key`, with an ext4 in which `f` has `data`.
fn sealed(s: &Scratch, key: &[u8], data: &[u8]) {
    let inner = s.write("inner.raw", b"");
    let file = std::fs::File::options().write(true).open(inner);
    file.and_then(|f| f.set_len(24 * MIB)).expect("its length");
    s.write("key", key);
    let mut cryptsetup = sbin("cryptsetup");
    cryptsetup.args("luksFormat -q --type=luks1 --pbkdf-force-iterations=1000".split(' '));
    cryptsetup.args(["--key-file=key", "inner.raw"]);
    succeed(cryptsetup.current_dir(s.path()));
    let mkfs = "mkfs --fs ext4 --key-file=key inner.raw";
    succeed(s.tane().args(mkfs.split(' ')));
    s.write("f", data);
    succeed(s.tane().args("cp --key-file=key f inner.raw:/f".split(' ')));
}

/// By a process of its own: what has Linux in it reads no terminal.
#[test]
fn a_passphrase_that_is_typed_opens_a_volume_and_the_terminal_stays_as_it_was() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    sealed(&s, b"typed by somebody", b"data inside");

    let mut terminal = Terminal::new();
    let mut cat = s.tane();
    cat.args(["cat", "inner.raw:/f"]);
    terminal.give(&mut cat);
    let mut cat = cat.spawn().expect("tane");
    terminal.shows("Passphrase for the encrypted volume: ");
    tane_test_support::eventually("nothing that is typed is shown", || !terminal.echoes());
    terminal.types("typed by somebody");
    let shown = terminal.shows("data inside");
    assert!(!shown.contains("typed"), "{shown}");
    assert!(cat.wait().expect("a status").success());
    tane_test_support::eventually("what is typed is shown again", || terminal.echoes());

    // Whoever is asked may also leave: killed, or by Ctrl-C, with a process of its own that
    // asks and without.
    // What writes stops as soon, though it would otherwise stop after the file at hand.
    for (signal, jail, verb) in [
        (libc::SIGKILL, "", "cat"),
        (libc::SIGINT, "", "cat"),
        (libc::SIGINT, "--no-jail", "cat"),
        (libc::SIGINT, "", "touch"),
        (libc::SIGINT, "--no-jail", "touch"),
    ] {
        let mut cat = s.tane();
        cat.args([verb, "inner.raw:/f"]);
        cat.args(Some(jail).filter(|jail| !jail.is_empty()));
        terminal.give(&mut cat);
        heeds_ctrl_c(&mut cat);
        let mut cat = cat.spawn().expect("tane");
        terminal.shows("Passphrase for the encrypted volume: ");
        tane_test_support::eventually("nothing that is typed is shown", || !terminal.echoes());
        // SAFETY: a process of our own.
        assert_eq!(unsafe { libc::kill(cat.id() as i32, signal) }, 0);
        let code = cat.wait().expect("a status").code();
        assert_eq!(
            code,
            (signal == libc::SIGINT).then_some(130),
            "{verb} {jail}"
        );
        tane_test_support::eventually("what is typed is shown again", || terminal.echoes());
    }
}

/// Each step is a process of its own, and so is who asks.
#[test]
fn a_passphrase_that_is_typed_once_opens_a_volume_for_all_steps_of_a_resize() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    sealed(&s, b"typed by somebody", b"data inside");
    let qemu = "convert -f raw -O qcow2 inner.raw outer.qcow2";
    succeed(&mut s.command("qemu-img", qemu));
    for image in ["inner.raw", "outer.qcow2"] {
        // The volume stays as large as its partition, whatever its file system takes of it.
        let size = 22 * MIB;
        for (wanted, new) in [("-6M", size - 6 * MIB), ("max", size)] {
            let mut terminal = Terminal::new();
            let mut resize = {
                let mut resize = s.tane();
                // Who is asked again and does not answer is not waited for.
                resize.args(["-v", "--time-limit=60s", "resize", image, wanted]);
                terminal.give(&mut resize);
                resize.spawn().expect("tane")
            };
            terminal.shows("Passphrase for the encrypted volume: ");
            tane_test_support::eventually("nothing that is typed is shown", || !terminal.echoes());
            terminal.types("typed by somebody");
            let shown = terminal.shows(" bytes");
            assert!(!shown.contains("Passphrase"), "{shown}");
            let said = format!("{image}: ext4, from {size} to {new} bytes");
            assert!(shown.contains(&said), "{shown}");
            assert!(resize.wait().expect("a status").success(), "{shown}");
            let df = ["df", "--json", "--key-file=key", image];
            let df = succeed(s.tane().args(df)).stdout;
            let df: serde_json::Value = serde_json::from_slice(&df).expect("JSON");
            let taken = df["size"].as_u64().expect("bytes");
            assert!(taken <= new && taken > new - 3 * MIB, "{df}");
        }
        let read = ["cat", "--key-file=key", &format!("{image}:/f")];
        assert_eq!(succeed(s.tane().args(read)).stdout, b"data inside");
        let found = s.tane().args(["fsck", "--key-file=key", image]).output();
        assert!(found.expect("tane").status.success(), "{image}");
    }
}

#[test]
fn a_key_that_can_be_read_once_opens_a_volume_for_all_steps_of_a_resize() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let key: Vec<u8> = (0..20_000u32).map(|n| ((n * n) >> 7) as u8).collect();
    sealed(&s, &key, b"data inside");
    for wanted in ["-6M", "max"] {
        succeed(s.tool("mkfifo").arg(s.join("pipe")));
        let mut resize = s.tane();
        resize.args(["resize", "--key-file=pipe", "inner.raw", wanted]);
        let resize = resize.stderr(Stdio::piped()).spawn().expect("tane");
        std::fs::copy(s.join("key"), s.join("pipe")).expect("a reader");
        // Whoever opened it again would wait for ever.
        std::fs::remove_file(s.join("pipe")).expect("a fifo");
        let ended = resize.wait_with_output().expect("its end");
        assert!(ended.status.success(), "{wanted}: {}", text(&ended.stderr));
    }
    let read = ["cat", "--key-file=key", "inner.raw:/f"];
    assert_eq!(succeed(s.tane().args(read)).stdout, b"data inside");
}

#[test]
fn a_volume_in_an_encrypted_image_may_have_another_key() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    sealed(&s, b"another", b"data\n");
    encrypt(&s, "inner.raw", LUKS, "e.qcow2");
    assert_eq!(
        with_key(&s, "--key-file=key cat e.qcow2:/f").stdout,
        b"data\n"
    );
    // The outer alone shows that there is a volume.
    let told = refused(
        s.tane()
            .args("--passphrase-file=pw cat e.qcow2:/f".split(' ')),
    );
    assert!(told.contains("no passphrase fits"), "{told}");
}

#[test]
fn a_copy_or_overlay_that_is_not_encrypted_is_told() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    ext4(&s);
    encrypt(&s, "disk.raw", LUKS, "e.qcow2");
    let told = with_key(&s, "convert e.qcow2 out.raw");
    assert_eq!(
        text(&told.stderr),
        "tane: out.raw: is not encrypted, as what it is a copy of is\n"
    );
    let told = with_key(&s, "convert --json e.qcow2 out.qcow2").stdout;
    let told: serde_json::Value = serde_json::from_slice(&told).expect("JSON");
    assert_eq!(told["decrypted"], true);
    assert!(s.read("out.raw") == s.read("disk.raw"));
    let told = succeed(s.tane().args(["convert", "disk.raw", "plain.qcow2"]));
    assert_eq!(text(&told.stderr), "");
    // What is written goes into an overlay.
    let wrong = refused(
        s.tane()
            .args("--passphrase-file=pw touch e.qcow2:/g".split(' ')),
    );
    assert!(
        wrong.contains("is encrypted, and can only be read; put an overlay"),
        "{wrong}"
    );
    let told = with_key(&s, "--overlay=top touch e.qcow2:/g");
    let note = "top: is not encrypted, as what is below it is";
    assert!(text(&told.stderr).contains(note), "{told:?}");
    with_key(&s, "--overlay=top stat e.qcow2:/g");
}
