//! How images are opened, as one table for the command, Rust, C, Python and Go: each opens
//! what `cases.json` says with the options that are said, in Rust's names, and finds the
//! same files or the same error. `make` makes the images.
//!
//! An option that begins with "<" is the content of that file. worker/tests/opening.rs is
//! Rust's half, here and jailed; cli/tests/images/opening.rs, capi/tests/opening.rs,
//! go/opening_test.go and python/tests/test_opening.py are the others'.

#![allow(dead_code)] // every test program uses a part of it

use serde_json::{Map, Value};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::Command;

/// One row.
pub struct Case {
    pub name: String,
    pub image: String,
    options: Map<String, Value>,
    /// What is written first, by name.
    pub writes: Vec<(String, String)>,
    /// And is gone when the image is opened again.
    pub forgets: bool,
    /// What is found, by name.
    pub reads: Vec<(String, String)>,
    /// The name of the errno, and a part of the text.
    fails: Option<(String, String)>,
}

fn texts(value: &Value) -> Vec<(String, String)> {
    let map = value.as_object().cloned().unwrap_or_default();
    let text = |(name, value): (String, Value)| {
        let value = value.as_str().expect("a text").to_owned();
        (name, value)
    };
    map.into_iter().map(text).collect()
}

impl Case {
    pub fn flag(&self, name: &str) -> bool {
        self.options.get(name).and_then(Value::as_bool) == Some(true)
    }

    pub fn number(&self, name: &str) -> Option<u64> {
        self.options.get(name)?.as_u64()
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.options.get(name)?.as_str()
    }

    pub fn list(&self, name: &str) -> Vec<&str> {
        let list = self.options.get(name).and_then(Value::as_array);
        let list = list.map_or(&[][..], Vec::as_slice);
        list.iter().map(|v| v.as_str().expect("a text")).collect()
    }

    /// Fails unless an error is the one that is expected. `errno`: None if it is not known.
    fn check_failure(&self, errno: Option<i32>, text: &str) {
        let unexpected = || panic!("{}: {text}", self.name);
        let (name, part) = self.fails.as_ref().unwrap_or_else(unexpected);
        let wanted = match &name[..] {
            "EACCES" => libc::EACCES,
            "EBADMSG" => libc::EBADMSG,
            "EINVAL" => libc::EINVAL,
            "ENOENT" => libc::ENOENT,
            "ENOKEY" => libc::ENOKEY,
            "ENOMEDIUM" => libc::ENOMEDIUM,
            "ENOTUNIQ" => libc::ENOTUNIQ,
            "ENXIO" => libc::ENXIO,
            other => panic!("{other}"),
        };
        assert!(text.contains(part), "{}: {text}", self.name);
        assert!(
            errno.is_none_or(|n| n == wanted),
            "{}: {errno:?}: {text}",
            self.name
        );
    }
}

/// A directory with the images, which goes away with this.
pub struct Images(PathBuf);

impl Images {
    /// None, and the test is skipped, without a tool for them.
    #[track_caller]
    pub fn make(beneath: &Path, name: &str) -> Option<Images> {
        let dir = beneath.join(format!("tane-opening-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        let images = Images(dir);
        let mut make = Command::new(own("make"));
        let done = make.arg(&images.0).output().expect("it runs");
        let said = String::from_utf8_lossy(&done.stderr);
        if done.status.code() == Some(2) {
            tane_test_support::skip(said.trim());
            return None;
        }
        assert!(done.status.success(), "{said}");
        Some(images)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Tries every row, and fails at the end if one did. `work`: the errno, if it is known,
    /// and the text of an error.
    pub fn try_all(&self, work: impl Fn(&Case) -> Result<(), (Option<i32>, String)>) {
        let try_one = |case: &Case| match work(case) {
            Ok(()) => assert!(case.fails.is_none(), "{}: it was opened", case.name),
            Err((errno, text)) => case.check_failure(errno, &text),
        };
        let fails = |case: &Case| catch_unwind(AssertUnwindSafe(|| try_one(case))).is_err();
        let failed: Vec<_> = self.cases().into_iter().filter(|c| fails(c)).collect();
        let names: Vec<_> = failed.iter().map(|case| &case.name).collect();
        assert!(names.is_empty(), "{names:#?}");
        // What was written through is whole, inside and outside.
        let fsck = tane_test_support::tool("e2fsprogs", "e2fsck");
        if let Some(mut fsck) = fsck {
            let said = fsck.arg("-fn").arg(self.0.join("written.img")).output();
            let said = said.expect("it runs");
            assert!(said.status.success(), "{said:?}");
        }
    }

    /// The table.
    fn cases(&self) -> Vec<Case> {
        let text = std::fs::read_to_string(own("cases.json")).expect("the table");
        let rows: Vec<Value> = serde_json::from_str(&text).expect("JSON");
        let case = |row: &Value| {
            let mut options = row["options"].as_object().cloned().unwrap_or_default();
            for value in options.values_mut() {
                if let Some(file) = value.as_str().and_then(|text| text.strip_prefix('<')) {
                    let text = std::fs::read_to_string(self.0.join(file));
                    *value = text.expect("a file").into();
                }
            }
            let fails = row["fails"].as_object().map(|fails| {
                let text = |name: &str| fails[name].as_str().expect("a text").to_owned();
                (text("errno"), text("says"))
            });
            Case {
                name: row["name"].as_str().expect("a name").to_owned(),
                image: row["image"].as_str().expect("an image").to_owned(),
                options,
                writes: texts(&row["writes"]),
                forgets: row["forgets"] == true,
                reads: texts(&row["reads"]),
                fails,
            }
        };
        let cases: Vec<_> = rows.iter().map(case).collect();
        let expects = |case: &Case| case.fails.is_some() == case.reads.is_empty();
        assert!(
            cases.iter().all(expects),
            "a row expects nothing, or two things"
        );
        cases
    }
}

impl Drop for Images {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn own(name: &str) -> PathBuf {
    // From the directory of any crate.
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/opening")
        .join(name)
}
