//! The table of how images are opened (tests/opening), by Rust: with a kernel in this
//! process, and with a worker.

mod common;
#[path = "../../tests/opening/mod.rs"]
mod opening;

use common::options;
use opening::{Case, Images};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use tane::{ImageOptions, Kernel, MountOptions};

/// An errno and a text.
type Failed = (i32, String);

fn failed(e: &tane::Error) -> Failed {
    (e.errno(), e.to_string())
}

fn lost(e: tane_worker::Failure) -> Failed {
    (e.errno, e.text)
}

/// What a file of an image says, and what can be written to it.
trait Files {
    fn read(&self, name: &str) -> Result<String, Failed>;
    fn write(&self, name: &str, text: &str) -> Result<(), Failed>;
    fn close(self: Box<Self>) -> Result<(), Failed>;
}

impl Files for tane::Mount {
    fn read(&self, name: &str) -> Result<String, Failed> {
        self.read_to_string(name).map_err(|e| failed(&e))
    }

    fn write(&self, name: &str, text: &str) -> Result<(), Failed> {
        tane::Tree::write(self, name, text).map_err(|e| failed(&e))
    }

    fn close(self: Box<Self>) -> Result<(), Failed> {
        self.unmount().map_err(|e| failed(&e))
    }
}

struct There(tane_worker::Mount);

impl Files for There {
    fn read(&self, name: &str) -> Result<String, Failed> {
        let file = self.0.open_file(OsStr::new(name), libc::O_RDONLY, 0);
        let mut room = [0; 4096];
        let n = file
            .and_then(|file| file.pread(&mut room, 0))
            .map_err(lost)?;
        Ok(String::from_utf8_lossy(&room[..n]).into_owned())
    }

    fn write(&self, name: &str, text: &str) -> Result<(), Failed> {
        let flags = libc::O_CREAT | libc::O_WRONLY;
        let file = self.0.open_file(OsStr::new(name), flags, 0o644);
        let n = file.and_then(|file| file.pwrite(text.as_bytes(), 0));
        assert_eq!(n.map_err(lost)?, text.len());
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<(), Failed> {
        self.0.unmount().map_err(lost)
    }
}

fn how(case: &Case, dir: &Path) -> Result<ImageOptions, Failed> {
    let invalid = |e: String| (libc::EINVAL, e);
    let paths = |name: &str| case.list(name).iter().map(|p| dir.join(p)).collect();
    let lower = case
        .list("lower")
        .into_iter()
        .map(|image| tane::layer_of(dir.join(image)));
    let overlay = |name: &str| match name {
        ":memory:" => PathBuf::from(name),
        name => dir.join(name),
    };
    Ok(ImageOptions {
        write: case.flag("write"),
        format: case
            .text("format")
            .map(str::parse)
            .transpose()
            .map_err(invalid)?,
        overlay: case.text("overlay").map(overlay),
        trust: paths("trust"),
        with: paths("with"),
        lower: lower.collect::<Result<_, _>>().map_err(|e| failed(&e))?,
        secrets: case.list("secrets").into_iter().map(Into::into).collect(),
        verity: case
            .text("verity")
            .map(str::parse)
            .transpose()
            .map_err(invalid)?,
        sector_size: case.number("sector_size").map(|n| n as u32),
    })
}

type Open = fn(&Path, &ImageOptions) -> Result<Box<dyn Files>, Failed>;

fn here(image: &Path, how: &ImageOptions) -> Result<Box<dyn Files>, Failed> {
    let image = how
        .open(image, |_| Kernel::boot())
        .map_err(|e| failed(&e))?;
    let mount = image
        .mount(None, &MountOptions::new())
        .map_err(|e| failed(&e))?;
    Ok(Box::new(mount))
}

fn there(image: &Path, how: &ImageOptions) -> Result<Box<dyn Files>, Failed> {
    let image = options().image(how.clone()).open(image).map_err(lost)?;
    let mount = image.mount(None, &Default::default()).map_err(lost)?;
    Ok(Box::new(There(mount)))
}

fn try_case(case: &Case, dir: &Path, open: Open) -> Result<(), Failed> {
    let how = how(case, dir)?;
    let image = dir.join(&case.image);
    let files = open(&image, &how)?;
    for (name, text) in &case.writes {
        files.write(name, text)?;
    }
    files.close()?;
    let files = open(&image, &how)?;
    for (name, text) in &case.reads {
        assert_eq!(&files.read(name)?, text, "{}: {name}", case.name);
    }
    for (name, text) in &case.writes {
        match case.forgets {
            true => assert_eq!(files.read(name).expect_err("gone").0, libc::ENOENT),
            false => assert_eq!(&files.read(name)?, text, "{}: {name}", case.name),
        }
    }
    files.close()
}

fn table(name: &str, open: Open) {
    if tane_test_support::image("default").is_none() {
        return;
    }
    let Some(images) = Images::make(Path::new(env!("CARGO_TARGET_TMPDIR")), name) else {
        return;
    };
    images.try_all(|case| {
        let done = try_case(case, images.path(), open);
        done.map_err(|(errno, text)| (Some(errno), text))
    });
}

#[test]
fn rust_opens_in_this_process_what_the_table_says() {
    table("here", here);
}

#[test]
fn rust_opens_by_a_worker_what_the_table_says() {
    table("there", there);
}
