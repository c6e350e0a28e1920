//! Promises of docs/inspect.schema.json and docs/messages.schema.json: they say what is true
//! of what `tane --json` says.

use crate::common::schema::{assert_inspected, check, messages, of_inspect};
use crate::common::*;
use serde_json::{json, Value};
use std::collections::BTreeSet;

fn inspect(s: &Scratch, image: &str) -> Value {
    let json = succeed(s.tane().args(["inspect", "--json", image])).stdout;
    serde_json::from_slice(&json).expect("JSON")
}

#[test]
fn what_inspect_says_of_images_is_as_the_schema_says() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.ext4("plain.img", None, 8);
    s.write("empty.img", &[0; 1 << 20]);
    s.write("tree/f", b"data");
    for table in ["gpt", "mbr"] {
        let args = [
            "make-image",
            "--partition-table",
            table,
            "--label=top",
            "tree",
        ];
        succeed(s.tane().args(args).arg(format!("{table}.img")));
    }
    succeed(s.command("gzip", "-k plain.img").arg("--quiet"));
    for image in [
        "plain.img",
        "empty.img",
        "gpt.img",
        "mbr.img",
        "plain.img.gz",
    ] {
        assert_inspected(&inspect(&s, image));
    }
    // One in another image, and a name that is no text.
    succeed(s.tane().args(["cp", "empty.img", "plain.img:/inner.img"]));
    assert_inspected(&inspect(&s, "plain.img:/inner.img"));
    use std::os::unix::ffi::OsStrExt;
    let odd = std::ffi::OsStr::from_bytes(b"odd\xff.img");
    std::fs::rename(s.join("empty.img"), s.path().join(odd)).expect("a name");
    let json = succeed(s.tane().args(["inspect", "--json"]).arg(odd)).stdout;
    let found: Value = serde_json::from_slice(&json).expect("JSON");
    assert_eq!(found["image_bytes"], "6f6464ff2e696d67");
    assert_inspected(&found);
}

#[test]
fn what_is_not_so_is_not_as_the_schema_says() {
    let schema = of_inspect();
    let good = json!({
        "image": "a", "size": 1, "allocated": null, "format": "raw", "table": null,
        "encrypted": null, "volumes": [],
        "layers": [{"path": "a", "format": "raw", "encrypted": null}],
    });
    let mut bad = Vec::new();
    check(&schema, &schema, &good, "", &mut bad);
    assert!(bad.is_empty(), "{bad:?}");
    for (key, value) in [
        ("size", json!(-1)),
        ("size", json!("1")),
        ("format", json!("floppy")),
        ("encrypted", json!("rot13")),
        ("layers", json!([{"path": "a"}])),
        ("volumes", json!([{}])),
        ("more", json!(1)),
    ] {
        let (mut other, mut wrong) = (good.clone(), Vec::new());
        other[key] = value;
        check(&schema, &schema, &other, "", &mut wrong);
        assert!(!wrong.is_empty(), "{key}: {other}");
    }
}

#[test]
fn the_documentation_names_the_keys_of_the_schema() {
    let text = include_str!("../../../docs/json.md");
    let (_, part) = text.split_once("\n## `inspect`\n").expect("the part");
    let part = part.split("\n## ").next().expect("its end");
    let mut tables = part.split("\n|---|---|---|\n").skip(1).map(|table| {
        let rows = table.lines().take_while(|line| line.starts_with('|'));
        let names = rows.flat_map(|row| row.split('|').nth(1).expect("keys").split(','));
        let names = names.map(|name| name.trim().trim_matches('`').to_owned());
        names.collect::<BTreeSet<_>>()
    });
    let schema = of_inspect();
    // That `KEY_bytes` may be beside any name is said once for all of them.
    let keys = |schema: &Value| -> BTreeSet<String> {
        let keys = schema["properties"].as_object().expect("keys").keys();
        keys.filter(|key| !key.ends_with("_bytes"))
            .cloned()
            .collect()
    };
    assert_eq!(tables.next(), Some(keys(&schema)));
    assert_eq!(tables.next(), Some(keys(&schema["$defs"]["volume"])));
}

#[test]
fn errors_are_json_where_results_are() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.ext4("disk.img", None, 8);
    s.write("source", b"x");
    s.write("junk", &[0x5a; 70_000]);
    for (arguments, code, errno, path) in [
        (
            "ls disk.img:/none",
            1,
            Some(libc::ENOENT),
            Some("disk.img:/none"),
        ),
        (
            "cat disk.img:/lost+found",
            1,
            Some(libc::EISDIR),
            Some("disk.img:/lost+found"),
        ),
        ("ls missing", 3, Some(libc::ENOENT), Some("missing")),
        ("find junk", 3, None, Some("junk")),
        ("cp source disk.img:/none/f", 1, None, None),
        ("xattr get user.a disk.img:/", 1, None, Some("disk.img:/")),
        ("ls", 2, None, None),
        ("frobnicate", 2, None, None),
        ("stat --unknown disk.img:/", 2, None, None),
        ("truncate -s much disk.img:/f", 2, None, None),
        ("cp source other", 2, None, None),
        ("--kernel=/none ls disk.img", 3, None, Some("/none")),
        ("sh disk.img -c nothing", 2, None, None),
        ("sh disk.img -c \"", 2, None, None),
    ] {
        let mut command = s.tane();
        let output = exit(command.arg("--json").args(arguments.split(' ')), code);
        let said = messages(&output.stderr);
        let [said] = &said[..] else {
            panic!("{arguments}: {said:?}");
        };
        let error = &said["error"];
        assert_eq!(error["code"], code, "{arguments}: {said}");
        assert_eq!(error["errno"], json!(errno), "{arguments}: {said}");
        assert_eq!(error["path"], json!(path), "{arguments}: {said}");
    }
    // What may be tried instead is apart from what is wrong.
    let output = exit(s.tane().args(["--json", "ls", "disk.img:etc"]), 3);
    let said = &messages(&output.stderr)[0]["error"];
    assert_eq!(said["message"], "disk.img:etc: no such file");
    assert_eq!(said["remedy"], "in the image it is disk.img:/etc");
    // For people there is none of it, and help is help.
    let plain = exit(s.tane().args(["ls", "missing"]), 3);
    assert_eq!(text(&plain.stderr), "tane: missing: no such file\n");
    let help = succeed(s.tane().args(["--json", "ls", "--help"]));
    assert!(text(&help.stdout).contains("Usage: tane ls"), "{help:?}");
}

#[test]
fn warnings_and_files_that_are_named_are_json_too() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.ext4("disk.img", None, 8);
    s.write("tree/f", b"x");
    succeed(s.tool("mkfs.vfat").args(["-C", "fat.img", "4096"]));
    succeed(s.tool("ln").args(["-s", "f", "tree/link"]));
    let output = s
        .tane()
        .args(["--json", "-v", "cp", "tree/.", "fat.img:/"])
        .output();
    let said = messages(&output.expect("tane").stderr);
    assert!(
        said.iter().any(|m| m["note"]["path"] == "fat.img:/f"),
        "{said:?}"
    );
    let fails = |m: &Value| !m["warning"].is_null() || !m["error"].is_null();
    assert!(said.iter().any(fails), "{said:?}");
    let output = succeed(s.tane().args(["--json", "-v", "rm", "fat.img:/f"]));
    assert_eq!(messages(&output.stderr)[0]["note"]["path"], "/f");
}
