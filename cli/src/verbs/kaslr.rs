//! tane kaslr: where kernels lie.

use crate::failure::{Failure, Result, SOME_FAILED};
use crate::output::Output;
use crate::session::Global;
use crate::session::{is_host_kernel, Machine};
use serde_json::json;
use std::collections::HashSet;
use std::io::ErrorKind;

/// Boot Linux several times and show where each was loaded
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tane kaslr                             ten random addresses
  tane kaslr --nokaslr --times 2         one address
  tane kaslr --symbol ext4_iget --json   where that function is, each time

An address in an oops, less the base of that start (the log's line \"image at\"),
is the address that addr2line, gdb and nm know, in the .debug file of the image. It
is shown too if that file lies beside the image.")]
pub struct Args {
    /// How many times
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub times: u32,
    /// A function or variable of the kernel, by its name in /proc/kallsyms
    #[arg(long, value_name = "NAME", default_value = "vfs_read")]
    pub symbol: String,
    /// Have it loaded at the same address each time
    #[arg(long)]
    pub nokaslr: bool,
}

/// What one start tells of itself.
struct Start {
    base: u64,
    randomised: bool,
    /// Of the symbol.
    address: u64,
}

impl Start {
    /// From the address of the image's first byte.
    fn offset(&self) -> u64 {
        self.address.wrapping_sub(self.base)
    }
}

pub fn run(args: Args, global: &Global) -> Result<u8> {
    if is_host_kernel(global) {
        return Err(Failure::usage("the host's kernel is started only once"));
    }
    let mut global = global.clone();
    if args.nokaslr {
        let words = global.append.take().unwrap_or_default();
        global.append = Some(format!("{words} nokaslr"));
    }
    let mut out = Output::new();
    let mut starts = Vec::new();
    let in_image = in_image(&args.symbol, &global)?;
    for _ in 0..args.times {
        let start = start(&args.symbol, &global)?;
        if global.json {
            out.json(&json!({
                "base": hex(start.base),
                "randomised": start.randomised,
                "symbol": args.symbol,
                "address": hex(start.address),
                "offset": hex(start.offset()),
                "in_image": in_image.map(hex),
            }))?;
        } else {
            if starts.is_empty() {
                out.line(&format!("{:16}  {}", "base", args.symbol))?;
            }
            out.line(&format!("{:16}  {}", hex(start.base), hex(start.address)))?;
        }
        out.flush()?;
        starts.push(start);
    }
    if !global.json {
        for line in summary(&args.symbol, &starts, in_image) {
            out.line(&line)?;
        }
    }
    out.flush()?;
    Ok(0)
}

/// The symbol's value in the file; the image itself is stripped of symbols, so it is
/// the `.debug` file beside it that is asked. None if there is none.
fn in_image(symbol: &str, global: &Global) -> Result<Option<u64>> {
    let file = Machine::image(global)?.with_extension("debug");
    match crate::elf::symbol(&file, symbol) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => {
            let text = format!("{}: {error}", file.display());
            Err(Failure::new(SOME_FAILED, text))
        }
        Ok(value) => Ok(value),
    }
}

fn start(symbol: &str, global: &Global) -> Result<Start> {
    let kernel = Machine::bare(global)?.kernel;
    let log = kernel.dmesg();
    let (base, randomised) = image_at(&log).ok_or_else(|| {
        let text = "the kernel's log does not say where its image is; is it silenced?";
        Failure::new(SOME_FAILED, text)
    })?;
    let proc = kernel.tree("/proc");
    let symbols = proc.and_then(|proc| proc.read_to_string("kallsyms"));
    let symbols = symbols.map_err(|e| Failure::new(SOME_FAILED, e.to_string()))?;
    let address = address_of(&symbols, symbol).ok_or_else(|| {
        let text = format!(
            "{symbol}: not in this kernel's /proc/kallsyms, which has functions only \
             unless it is built with KALLSYMS_ALL"
        );
        Failure::new(SOME_FAILED, text)
    })?;
    Ok(Start {
        base,
        randomised,
        address,
    })
}

/// `tane: image at 00004be51c600000 (randomised), 256 MiB RAM`, or
/// `(not randomised: nokaslr)`
fn image_at(log: &str) -> Option<(u64, bool)> {
    let (_, rest) = log.split_once("tane: image at ")?;
    let (address, rest) = rest.split_once(" (")?;
    let (how, _) = rest.split_once(')')?;
    let base = u64::from_str_radix(address, 16).ok()?;
    match how {
        "randomised" => Some((base, true)),
        _ if how.starts_with("not randomised") => Some((base, false)),
        _ => None,
    }
}

/// `00004be51c6b1c70 T vfs_read`; the first of that name.
fn address_of(symbols: &str, name: &str) -> Option<u64> {
    let mut lines = symbols.lines().map(str::split_ascii_whitespace);
    lines.find_map(|mut fields| {
        let address = fields.next()?;
        let found = fields.nth(1)? == name;
        found.then(|| u64::from_str_radix(address, 16).ok())?
    })
}

fn hex(address: u64) -> String {
    format!("{address:#x}")
}

fn summary(symbol: &str, starts: &[Start], in_image: Option<u64>) -> Vec<String> {
    let bases: HashSet<_> = starts.iter().map(|start| start.base).collect();
    let offsets: HashSet<_> = starts.iter().map(Start::offset).collect();
    let randomised = starts.iter().filter(|start| start.randomised).count();
    let how = match randomised {
        0 => "not randomised".into(),
        all if all == starts.len() => "randomised".into(),
        some => format!("{some} randomised"),
    };
    let mut lines = vec![format!(
        "{} starts, {} bases, {how}",
        starts.len(),
        bases.len()
    )];
    let mut offsets: Vec<_> = offsets.into_iter().map(hex).collect();
    offsets.sort();
    lines.push(format!("{symbol} less base: {}", offsets.join(" ")));
    if let Some(value) = in_image {
        lines.push(format!("{symbol} in the image: {}", hex(value)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_without_the_line_says_nothing() {
        assert_eq!(image_at("tane: image at 10 (somehow), 1 MiB RAM"), None);
        assert_eq!(image_at(""), None);
        let line = "[ 0.0] tane: image at 0000100000000000 (not randomised: nokaslr), 64 MiB RAM\n";
        assert_eq!(image_at(line), Some((1 << 44, false)));
    }

    #[test]
    fn a_symbol_is_found_by_its_whole_name() {
        let symbols = "0000000000000010 t a_b\n0000000000000020 T a [m]\n0000000000000030 t a\n";
        assert_eq!(address_of(symbols, "a"), Some(32));
        assert_eq!(address_of(symbols, "b"), None);
    }
}
