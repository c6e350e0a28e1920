//! What parts of the source take of an image, as `size` counted it when it was built.

use super::files::{beside, named};
use crate::failure::{Failure, Result, NO_IMAGE};
use crate::output::Output;
use crate::session::Global;
use serde_json::json;

#[derive(clap::Args)]
pub struct Args {
    /// An image's name, or its file; without one, the image that is booted
    #[arg(value_name = "IMAGE")]
    image: Option<String>,
}

/// Bytes of code with constants, of data, and of what is zero at first.
#[derive(Clone, Debug, PartialEq)]
struct Part {
    name: String,
    text: u64,
    data: u64,
    zero: u64,
}

fn parse(text: &str) -> Option<Vec<Part>> {
    let part = |line: &str| {
        let mut words = line.split(' ');
        let name = words.next()?.to_owned();
        let mut number = || words.next()?.parse().ok();
        Some(Part {
            name,
            text: number()?,
            data: number()?,
            zero: number()?,
        })
    };
    text.lines().map(part).collect()
}

pub fn run(args: &Args, global: &Global) -> Result<u8> {
    let image = named(args.image.as_deref(), global)?;
    let mut parts = parse(&beside(&image, "sizes")?).ok_or_else(|| {
        let text = format!("{}: not what an image's build writes", image.display());
        Failure::new(NO_IMAGE, text)
    })?;
    parts.sort_by_key(|part| std::cmp::Reverse(part.text + part.data));
    let mut out = Output::new();
    if !global.json {
        out.line(&format!(
            "{:>10} {:>10} {:>10}  {}",
            "code", "data", "zero", "part"
        ))?;
    }
    for part in &parts {
        let Part {
            name,
            text,
            data,
            zero,
        } = part;
        if global.json {
            out.json(&json!({ "part": name, "code": text, "data": data, "zero": zero }))?;
        } else {
            out.line(&format!("{text:>10} {data:>10} {zero:>10}  {name}"))?;
        }
    }
    out.flush()?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_table_is_none() {
        assert_eq!(parse("fs/ext4 1 2\n"), None);
        assert_eq!(parse("fs/ext4 a b c\n"), None);
        let part = Part {
            name: "fs/ext4".into(),
            text: 1,
            data: 2,
            zero: 3,
        };
        assert_eq!(parse("fs/ext4 1 2 3\n"), Some(vec![part]));
    }
}
