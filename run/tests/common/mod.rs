//! What the tests of this crate share.
#![allow(dead_code)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command as HostCommand, Stdio};
use std::sync::{Arc, Mutex};
use tane::Kernel;
use tane_run::{Child, Command, Intercept, Streams};

/// One kernel with room for programs fits into a process: tests take turns. The kernel has
/// /tmp, the program as /bin/program, and two CPUs.
pub fn with_kernel(program: &Path, test: impl FnOnce(&Kernel)) {
    with_kernel_of(2, program, test);
}

pub fn with_kernel_of(cpus: u32, program: &Path, test: impl FnOnce(&Kernel)) {
    with_kernel_of_image("default", cpus, program, test);
}

/// The same with a kernel image of this name.
pub fn with_kernel_of_image(image: &str, cpus: u32, program: &Path, test: impl FnOnce(&Kernel)) {
    with_mortal_kernel_of(image, cpus, program, |kernel| {
        test(kernel);
        assert!(kernel.is_alive(), "{}", kernel.last_words());
    });
}

/// The same for a test that may end it.
pub fn with_mortal_kernel(program: &Path, test: impl FnOnce(&Kernel)) {
    with_mortal_kernel_of("default", 2, program, test);
}

fn with_mortal_kernel_of(image: &str, cpus: u32, program: &Path, test: impl FnOnce(&Kernel)) {
    static ONE: Mutex<()> = Mutex::new(());
    let Some(image) = tane_test_support::image(image) else {
        return;
    };
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let boot = || {
        let mut builder = Kernel::builder().image(&image).programs(true).cpus(cpus);
        if std::env::var_os("TANE_TEST_LOG").is_some() {
            builder = builder.log(|text| eprint!("{text}"));
        }
        builder.boot()
    };
    // The threads of the program before have handles of the kernel before.
    let mut booted = boot();
    tane_test_support::eventually("there is room for programs again", || {
        let busy = matches!(&booted, Err(error) if error.errno() == libc::EEXIST);
        if busy {
            booted = boot();
        }
        !busy
    });
    let kernel = booted.expect("the image boots");
    let root = kernel.tree("/").expect("a root");
    root.create_dir_with("/tmp", 0o1777).expect("/tmp");
    root.create_dir_with("/bin", 0o755).expect("/bin");
    put(&kernel, program, "/bin/program");
    test(&kernel);
}

pub fn put(kernel: &Kernel, from: &Path, to: &str) {
    let root = kernel.tree("/").expect("a root");
    root.write(to, std::fs::read(from).expect("the file"))
        .expect("its copy");
    root.set_permissions(to, 0o755).expect("its mode");
}

/// A C program of this directory, compiled.
pub fn compiled(source: &str) -> PathBuf {
    compiled_as(source, "-static", source.trim_end_matches(".c"))
}

/// The same, as most programs are today, whose code can be anywhere: static, not to need
/// libraries.
pub fn movable(source: &str) -> PathBuf {
    let name = format!("{}-movable", source.trim_end_matches(".c"));
    compiled_as(source, "-static-pie", &name)
}

fn compiled_as(source: &str, how: &str, name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let made = HostCommand::new("cc")
        .args(["-O1", how, "-pthread", "-w", "-o"])
        .arg(&path)
        .arg(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests")).join(source))
        .status();
    assert!(made.expect("a C compiler").success());
    path
}

/// A writer whose content stays.
#[derive(Clone, Default)]
pub struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Kept {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

/// How programs end that are to keep a promise which they do not know.
const NO_PROMISE: i32 = 2;

#[derive(Debug, PartialEq)]
pub struct Outcome {
    pub code: i32,
    pub output: String,
    pub errors: String,
}

pub fn start(kernel: &Kernel, words: &[&str], input: &'static [u8]) -> (Child, Kept, Kept) {
    let (output, errors) = (Kept::default(), Kept::default());
    let mut command = Command::new(words[0]).env("GREETING", "good morning");
    for word in &words[1..] {
        command = command.arg(*word);
    }
    let streams = Streams {
        input: Box::new(input),
        output: Box::new(output.clone()),
        errors: Box::new(errors.clone()),
    };
    let child = command.start(kernel, streams);
    (child.unwrap_or_else(|e| panic!("{e}")), output, errors)
}

pub fn here(kernel: &Kernel, words: &[&str], input: &'static [u8]) -> Outcome {
    let (child, output, errors) = start(kernel, words, input);
    let ending = child.wait().expect("it ends");
    Outcome {
        code: ending.code(),
        output: output.text(),
        errors: errors.text(),
    }
}

pub fn on_the_host(program: &Path, words: &[&str], input: &[u8]) -> Outcome {
    use std::os::unix::process::ExitStatusExt;
    let mut child = HostCommand::new(program)
        .args(words)
        .env_clear()
        .env("GREETING", "good morning")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    child.stdin.take().unwrap().write_all(input).ok();
    let out = child.wait_with_output().expect("it ends");
    Outcome {
        code: out
            .status
            .code()
            .unwrap_or_else(|| 128 + out.status.signal().unwrap()),
        output: String::from_utf8_lossy(&out.stdout).into_owned(),
        errors: String::from_utf8_lossy(&out.stderr).into_owned(),
    }
}

/// The same words give the same outcome on both.
#[track_caller]
pub fn same(program: &Path, words: &[&str], input: &'static [u8]) {
    same_of(2, program, words, input);
}

/// The same with so many CPUs.
#[track_caller]
pub fn same_of(cpus: u32, program: &Path, words: &[&str], input: &'static [u8]) {
    same_of_image("default", cpus, program, words, input);
}

/// The same with a kernel image of this name.
#[track_caller]
pub fn same_of_image(image: &str, cpus: u32, program: &Path, words: &[&str], input: &'static [u8]) {
    let mut all = vec!["/bin/program"];
    all.extend(words);
    let theirs = on_the_host(program, words, input);
    // It would be the same on both.
    assert_ne!(theirs.code, NO_PROMISE, "{words:?}: not in its table");
    with_kernel_of_image(image, cpus, program, |kernel| {
        let ours = here(kernel, &all, input);
        assert_eq!(ours, theirs, "{}", kernel.dmesg());
    });
    // The same, with each place that calls changed as soon as it does.
    with_kernel_of_image(image, cpus, program, |kernel| {
        kernel.intercept(Arc::new(Intercept::at_once()));
        let ours = here(kernel, &all, input);
        assert_eq!(ours, theirs, "{}", kernel.dmesg());
    });
}
