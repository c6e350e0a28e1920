//! Lines of the file, for what is wrong with it.

use crate::error::{Error, Result};
use crate::topology::Text;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tane::net::Impairment;

/// A topology's text.
#[derive(Clone, Debug)]
pub struct Source {
    path: PathBuf,
    /// Where each line begins.
    lines: Vec<usize>,
}

impl Source {
    pub fn new(path: &Path, text: &str) -> Self {
        let ends = text.match_indices('\n').map(|(at, _)| at + 1);
        Self {
            path: path.to_owned(),
            lines: std::iter::once(0).chain(ends).collect(),
        }
    }

    /// The line of a byte, from 1.
    pub fn line(&self, at: usize) -> usize {
        self.lines.partition_point(|start| *start <= at)
    }

    /// What is wrong with the part that begins there.
    pub fn wrong(&self, at: usize, text: impl Into<String>) -> Error {
        Error::Topology {
            path: self.path.clone(),
            line: self.line(at),
            text: text.into(),
        }
    }

    pub fn wrong_at(&self, span: Range<usize>, text: impl Into<String>) -> Error {
        self.wrong(span.start, text)
    }

    /// `10s`, `1.5ms`, in ns.
    pub fn time(&self, text: &Text) -> Result<u64> {
        let number = |unit: &str, factor: f64| {
            let number = text.get_ref().strip_suffix(unit)?.trim().parse::<f64>();
            number.ok().map(|number| number * factor)
        };
        let units = [
            ("us", 1e-6),
            ("ms", 1e-3),
            ("min", 60.0),
            ("s", 1.0),
            ("h", 3600.0),
        ];
        let seconds = units
            .iter()
            .find_map(|(unit, factor)| number(unit, *factor));
        let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let time = time.and_then(|time| u64::try_from(time.as_nanos()).ok());
        // A century.
        let time = time.filter(|time| *time < 3_000_000_000_000_000_000);
        time.ok_or_else(|| {
            let wrong = format!(
                "{:?} is no time: write 10s, 250ms, 5us or 2min",
                text.get_ref()
            );
            self.wrong_at(text.span(), wrong)
        })
    }

    /// Bytes, as the command's options have them: `64K`, `10M`.
    pub fn bytes(&self, text: &Text) -> Result<u64> {
        let bytes = tane::parse_size(text.get_ref());
        bytes.map_err(|_| {
            let wrong = format!("{:?} is no size: write 1500, 64K or 10M", text.get_ref());
            self.wrong_at(text.span(), wrong)
        })
    }

    /// Bits a second, as impairments have them: `5mbit`.
    pub fn rate(&self, text: &Text) -> Result<u64> {
        let parsed = format!("rate={}", text.get_ref()).parse::<Impairment>();
        let bytes = parsed.ok().and_then(|how| how.rate);
        bytes.map(|bytes| bytes * 8).ok_or_else(|| {
            let wrong = format!("{:?} is no rate: write 500kbit or 5mbit", text.get_ref());
            self.wrong_at(text.span(), wrong)
        })
    }

    pub fn impairment(&self, text: &Text) -> Result<Impairment> {
        let parsed = text.get_ref().parse::<Impairment>();
        parsed.map_err(|wrong| self.wrong_at(text.span(), wrong.to_string()))
    }
}
