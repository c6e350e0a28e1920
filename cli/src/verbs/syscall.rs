//! tane syscall: system calls by hand, for the curious.

use crate::failure::{Failure, Result};
use crate::names::{hex, shown};
use crate::output::Output;
use crate::session::Global;
use crate::session::{image_path, is_host_kernel, Access, Machine, Session, HOST};
use serde_json::json;
use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStrExt;
use tane_linux::{Errno, Linux};

/// Linux's own table of numbers and names.
const NAMES: &str = include_str!("syscall_names.txt");

/// Make system calls in the Linux inside this process
#[derive(clap::Args)]
#[command(after_help = "\
Arguments are numbers (also 0x..., 0o..., negative), text (passed as a pointer to
it), buf:SIZE (a buffer of zeroes, printed afterwards) or _ (what the call before
returned). A lone comma separates calls. With --image, an image is mounted read-only; {} in texts stands for where.

Examples:
  tane syscall getppid
  tane syscall uname buf:390
  tane syscall openat -100 /proc/version 0 , read _ buf:200 200
  tane syscall --image disk.img openat -100 {}/etc/fstab 0 , read _ buf:200 200")]
pub struct Args {
    /// Mount this image for the calls
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<OsString>,
    /// The call's number or name, and its arguments
    #[arg(required = true, value_name = "CALL", allow_hyphen_values = true)]
    #[arg(trailing_var_arg = true)]
    pub call: Vec<OsString>,
}

pub fn run(args: Args, global: &Global) -> Result<u8> {
    let calls = args.call.split(|word| word == ",").map(Call::parse);
    let mut calls = calls.collect::<Result<Vec<_>>>()?;
    if is_host_kernel(global) {
        return perform(&HOST, &mut calls, global);
    }
    let Some(image) = &args.image else {
        let machine = Machine::bare(global)?;
        let code = perform(&machine, &mut calls, global)?;
        machine.check()?;
        return Ok(code);
    };
    let session = Session::open(&image_path(image, global)?, Access::Read, global)?;
    if let Session::Image(opened) = &session {
        calls
            .iter_mut()
            .for_each(|call| call.substitute(opened.mount_point()));
    }
    let code = perform(session.side(), &mut calls, global)?;
    session.close()?;
    Ok(code)
}

enum Argument {
    Number(i64),
    Text(CString),
    Buffer(Vec<u8>),
    /// What the call before returned.
    Previous,
}

struct Call {
    name: String,
    nr: i64,
    arguments: Vec<Argument>,
}

impl Call {
    fn parse(words: &[OsString]) -> Result<Call> {
        let Some((name, rest)) = words.split_first() else {
            return Err(Failure::usage("syscall: no call between the commas"));
        };
        let name = name.to_string_lossy().into_owned();
        let nr = match number(&name) {
            Some(nr) => nr,
            None => by_name(&name).ok_or_else(|| {
                Failure::usage(format!("syscall: {name}: no such call in x86-64 Linux"))
            })?,
        };
        if rest.len() > 6 {
            return Err(Failure::usage(format!(
                "syscall: {name}: at most six arguments"
            )));
        }
        let arguments = rest.iter().map(Argument::parse).collect::<Result<_>>()?;
        Ok(Call {
            name,
            nr,
            arguments,
        })
    }

    fn substitute(&mut self, mount_point: &[u8]) {
        for argument in &mut self.arguments {
            if let Argument::Text(text) = argument {
                if let Some(rest) = text.as_bytes().strip_prefix(b"{}") {
                    let path = [mount_point, rest].concat();
                    *text = CString::new(path).unwrap_or_default();
                }
            }
        }
    }
}

impl Argument {
    fn parse(word: &OsString) -> Result<Argument> {
        let text = word.to_string_lossy();
        if text == "_" {
            return Ok(Argument::Previous);
        }
        if let Some(number) = number(&text) {
            return Ok(Argument::Number(number));
        }
        if let Some(size) = text.strip_prefix("buf:") {
            let size = size.parse().ok().filter(|n| *n <= 1 << 20);
            let size = size.ok_or_else(|| Failure::usage("syscall: buf: up to 1048576 bytes"))?;
            return Ok(Argument::Buffer(vec![0; size]));
        }
        let text = CString::new(word.as_bytes());
        text.map(Argument::Text)
            .map_err(|_| Failure::usage("syscall: a NUL inside a text"))
    }

    fn value(&mut self, previous: i64) -> u64 {
        match self {
            Argument::Number(n) => *n as u64,
            Argument::Previous => previous as u64,
            Argument::Text(text) => text.as_ptr() as u64,
            Argument::Buffer(buffer) => buffer.as_mut_ptr() as u64,
        }
    }
}

fn number(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let value = match digits.get(..2) {
        Some("0x") => u64::from_str_radix(&digits[2..], 16).ok()?,
        Some("0o") => u64::from_str_radix(&digits[2..], 8).ok()?,
        _ => digits.parse().ok()?,
    };
    Some(if negative {
        (value as i64).wrapping_neg()
    } else {
        value as i64
    })
}

/// What Linux calls it.
pub fn by_number(nr: u32) -> Option<&'static str> {
    let rows = NAMES.lines().filter_map(|line| line.split_once(' '));
    let mut known = rows.filter_map(|(known, name)| Some((known.parse().ok()?, name)));
    known
        .find(|(known, _): &(u32, _)| *known == nr)
        .map(|(_, name)| name)
}

fn by_name(name: &str) -> Option<i64> {
    let rows = NAMES.lines().filter_map(|line| line.split_once(' '));
    let mut numbered = rows.filter(|(nr, _)| *nr != "#");
    numbered.find(|(_, known)| *known == name)?.0.parse().ok()
}

impl Linux for Machine {
    unsafe fn call(&self, nr: i64, args: [u64; 6]) -> i64 {
        // SAFETY: the caller vouches for the arguments.
        unsafe { self.kernel.syscall(nr, args) }
    }
}

fn perform(side: &dyn Linux, calls: &mut [Call], global: &Global) -> Result<u8> {
    let mut out = Output::new();
    let mut failed = false;
    let mut previous = 0;
    for call in calls {
        let mut values = [0; 6];
        for (value, argument) in values.iter_mut().zip(&mut call.arguments) {
            *value = argument.value(previous);
        }
        // SAFETY: none for this process: the call may be told to write anywhere,
        // and that is what was asked for. Texts and buffers outlive it.
        let result = unsafe { side.call(call.nr, values) };
        failed |= result < 0;
        previous = result;
        let why = (result < 0).then(|| Errno(-result as i32).to_string());
        let buffers = call.arguments.iter().filter_map(|a| match a {
            Argument::Buffer(b) => Some(&b[..b.iter().rposition(|&b| b != 0).map_or(0, |i| i + 1)]),
            _ => None,
        });
        if global.json {
            let buffers: Vec<_> = buffers.map(hex).collect();
            out.json(
                &json!({"call": call.name, "result": result, "error": why, "buffers": buffers}),
            )?;
            continue;
        }
        let why = why.map_or(String::new(), |w| format!(" ({w})"));
        out.line(&format!("{} = {result}{why}", call.name))?;
        for buffer in buffers {
            out.line(&format!("  {}", shown(buffer)))?;
        }
    }
    out.flush()?;
    Ok(u8::from(failed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_linux_numbers() {
        assert_eq!(by_name("read"), Some(0));
        assert_eq!(by_name("getppid"), Some(libc::SYS_getppid));
        assert_eq!(by_name("openat2"), Some(libc::SYS_openat2));
        assert_eq!(by_name("#"), None);
        assert_eq!(by_number(0), Some("read"));
        assert_eq!(by_number(511), None);
        assert_eq!(number("-100"), Some(-100));
        assert_eq!(number("0x10"), Some(16));
        assert_eq!(number("/proc"), None);
    }
}
