//! Promises of docs/inspect.schema.json: it says of `tane inspect --json` what is true.

mod common;

use common::schema::{assert_inspected, check, of_inspect};
use common::*;
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
        "layers": [{"path": "a", "format": "raw"}], "volumes": [],
    });
    let mut bad = Vec::new();
    check(&schema, &schema, &good, "", &mut bad);
    assert!(bad.is_empty(), "{bad:?}");
    for (key, value) in [
        ("size", json!(-1)),
        ("size", json!("1")),
        ("format", json!("floppy")),
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
    let text = include_str!("../../docs/json.md");
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
