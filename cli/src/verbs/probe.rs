//! tane probe: how often the Linux of another verb reaches a place in its code, with what,
//! and how long it stays.

mod report;

use crate::failure::{Failure, Result};
use crate::session::traced::{From, Plan};
use clap::ValueEnum;
use report::{Report, Shown};
use std::ffi::OsString;
use std::path::PathBuf;

/// Record where the Linux of another verb comes by, and with what
#[derive(clap::Args)]
#[command(after_help = "\
SPEC is a function of the kernel, or an instruction in one as FUNCTION+BYTES, and what to
keep of it, in the words of Linux's Documentation/trace/kprobetrace.rst: arguments ($arg1),
registers (%di), memory (+8(%di)), each with a name and a type if need be
(size=$arg3:u64); with --return what the function returns ($retval), which is kept if
nothing else is. A word is the value of --histogram by its name, or as it is written.

VERB is any verb as for tane trace, whose help says what is recorded and where to; here it is
what was found, in the order of time, or put together by --count and --histogram.

Examples:
  tane probe 'vfs_read size=$arg3:u64' -- cat disk.img:/etc/fstab
  tane probe ext4_map_blocks --return --histogram retval -- cp file disk.img:/
  tane probe vfs_write --histogram time -- cp -r tree disk.img:/
  tane probe __mark_inode_dirty --count --stack -- touch disk.img:/file")]
pub struct Args {
    /// The place, and what to keep of it
    #[arg(value_name = "SPEC")]
    pub spec: String,
    /// Where the function returns, and with what
    #[arg(long)]
    pub r#return: bool,
    /// How often which value of ARG was there, or how long the function took, in ns
    #[arg(long, value_name = "ARG|time", conflicts_with_all = ["count", "stack"])]
    pub histogram: Option<String>,
    /// How often the place was reached; with --stack, from where how often
    #[arg(long)]
    pub count: bool,
    /// With the functions that were under way
    #[arg(long)]
    pub stack: bool,
    /// Show so many, and count the others
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub limit: usize,
    /// Load this module first: its functions can be named then. Can be repeated
    #[arg(long = "module", value_name = "FILE.ko")]
    pub modules: Vec<PathBuf>,
    /// By the kernel's own threads, too
    #[arg(long)]
    pub all: bool,
    /// When the recording begins
    #[arg(long, value_name = "WHEN", default_value = "mount")]
    pub from: Since,
    /// Memory for the record, on each CPU; what does not fit is lost, the oldest first, and
    /// told
    #[arg(long, value_name = "SIZE", default_value = "32M", value_parser = tane::parse_size)]
    pub buffer: u64,
    /// Write the record to FILE
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The other verb and its arguments, behind --
    #[arg(last = true, required = true, value_name = "VERB")]
    pub verb: Vec<OsString>,
}

/// When a recording of probes begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Since {
    /// When Linux gets the image
    Mount,
    /// When the image is mounted
    Verb,
}

impl Args {
    pub fn from(&self) -> From {
        match self.from {
            Since::Mount => From::Mount,
            Since::Verb => From::Verb,
        }
    }

    /// What to record, and how to show it.
    pub fn plan(&self, json: bool) -> Result<(Plan, Report)> {
        let mut words = self.spec.split_whitespace();
        let Some(place) = words.next() else {
            return Err(Failure::usage("probe: no function is named"));
        };
        if self.r#return && place.contains('+') {
            return Err(Failure::usage(format!(
                "{place}: functions return, not instructions"
            )));
        }
        let mut fields: Vec<_> = words.map(named).collect();
        if self.r#return && fields.is_empty() {
            fields.push("retval=$retval:s64".into());
        }
        let shown = match self.histogram.as_deref() {
            Some("time") if self.r#return || place.contains('+') || !fields.is_empty() => {
                let text =
                    format!("{place}: --histogram time is of a function, and of nothing else");
                return Err(Failure::usage(text));
            }
            Some("time") => Shown::Times,
            Some(field) => Shown::Histogram(field_of(field, &mut fields)),
            None if self.count => Shown::Count,
            None => Shown::Events(self.limit),
        };
        let plan = Plan {
            buffer: self.buffer,
            everyone: self.all,
            stacks: self.stack,
            modules: crate::verbs::trace::read_modules(&self.modules)?,
            ..Plan::default()
        };
        let plan = match &shown {
            // The graph, of one level, has how long each call took.
            Shown::Times => Plan {
                calls: true,
                functions: vec![place.into()],
                depth: 1,
                ..plan
            },
            _ => Plan {
                probes: vec![(self.r#return, place.into(), fields.join(" "))],
                ..plan
            },
        };
        Ok((plan, Report { shown, json }))
    }
}

/// A field with a name: its own word, if it has none.
fn named(word: &str) -> String {
    match word.strip_prefix(['$', '%']) {
        Some(rest) => {
            let name = rest.split(':').next().unwrap_or(rest);
            format!("{name}={word}")
        }
        None => word.into(),
    }
}

/// The name of the field that is meant, which is kept if it was not yet.
fn field_of(meant: &str, fields: &mut Vec<String>) -> String {
    let name = meant.trim_start_matches(['$', '%']);
    let name = name.split(':').next().unwrap_or(name);
    let is_kept = |field: &String| field.split('=').next() == Some(name);
    if !fields.iter().any(is_kept) {
        let word = match meant.starts_with(['$', '%']) {
            true => meant.to_owned(),
            false => format!("${meant}"),
        };
        fields.push(named(&word));
    }
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_the_names_that_they_are_asked_for_by() {
        assert_eq!(named("$arg1"), "arg1=$arg1");
        assert_eq!(named("$arg3:u64"), "arg3=$arg3:u64");
        assert_eq!(named("%di"), "di=%di");
        assert_eq!(named("size=$arg3"), "size=$arg3");
        let mut fields = vec!["size=$arg3:u64".to_owned()];
        assert_eq!(field_of("size", &mut fields), "size");
        assert_eq!(field_of("arg2", &mut fields), "arg2");
        assert_eq!(field_of("$arg2:u32", &mut fields), "arg2");
        assert_eq!(fields, ["size=$arg3:u64", "arg2=$arg2"]);
    }
}
