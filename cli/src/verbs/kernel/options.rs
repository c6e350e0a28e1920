//! What images are configured with.

use super::files::{named, options, Options};
use crate::failure::{Failure, Result, SOME_FAILED};
use crate::output::Output;
use crate::session::Global;
use serde_json::json;

#[derive(clap::Args)]
pub struct ConfigArgs {
    /// An image's name, or its file
    #[arg(value_name = "IMAGE")]
    image: String,
    /// Options, with or without CONFIG_
    #[arg(value_name = "OPTION")]
    names: Vec<String>,
}

#[derive(clap::Args)]
pub struct DiffArgs {
    /// An image's name, or its file
    #[arg(value_name = "IMAGE")]
    first: String,
    /// Another one
    #[arg(value_name = "IMAGE")]
    second: String,
}

/// As Kconfig writes it.
fn line(name: &str, value: &str) -> String {
    match value {
        "n" => format!("# CONFIG_{name} is not set"),
        value => format!("CONFIG_{name}={value}"),
    }
}

fn bare(name: &str) -> &str {
    name.strip_prefix("CONFIG_").unwrap_or(name)
}

pub fn config(args: &ConfigArgs, global: &Global) -> Result<u8> {
    let mut found = options(&named(Some(&args.image), global)?)?;
    let mut missing = Vec::new();
    if !args.names.is_empty() {
        let mut some = Options::new();
        for name in args.names.iter().map(|name| bare(name)) {
            match found.remove(name) {
                Some(value) => drop(some.insert(name.to_owned(), value)),
                None => missing.push(name),
            }
        }
        found = some;
    }
    let mut out = Output::new();
    if global.json {
        out.json(&json!(found))?;
    } else {
        for (name, value) in &found {
            out.line(&line(name, value))?;
        }
    }
    out.flush()?;
    if missing.is_empty() {
        return Ok(0);
    }
    let text = format!(
        "{}: {} has no such option: it is misspelt, another Linux's, or needs what is not set",
        missing.join(", "),
        args.image
    );
    Err(Failure::new(SOME_FAILED, text))
}

pub fn diff(args: &DiffArgs, global: &Global) -> Result<u8> {
    let [first, second] = [&args.first, &args.second].map(|image| {
        let image = named(Some(image), global)?;
        options(&image)
    });
    let (first, second) = (first?, second?);
    let mut out = Output::new();
    let names: std::collections::BTreeSet<&String> = first.keys().chain(second.keys()).collect();
    let mut differ = 0;
    for name in names {
        // What Kconfig does not ask for, as what it needs is not set, is not set either.
        let value = |of: &'_ Options| of.get(name).map_or("n", String::as_str).to_owned();
        let (one, other) = (value(&first), value(&second));
        if one == other {
            continue;
        }
        differ += 1;
        if global.json {
            out.json(&json!({ "option": name, "first": one, "second": other }))?;
        } else {
            out.line(&format!("{name}: {one} -> {other}"))?;
        }
    }
    out.flush()?;
    Ok(if differ > 0 { SOME_FAILED } else { 0 })
}
