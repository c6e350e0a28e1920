//! What a probe found, for people or as a line of JSON for each thing.

use crate::failure::{Failure, Result};
use crate::names::plain;
use crate::verbs::trace::{event_for_programs, line, tell_losses, Output};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write;
use tane_lab::{Event, Histogram, Record};

/// What is shown of the events.
pub enum Shown {
    /// So many.
    Events(usize),
    /// How many, or from where how many.
    Count,
    /// The values of this field.
    Histogram(String),
    /// How long a function took.
    Times,
}

/// How what was found is written.
pub struct Report {
    pub shown: Shown,
    pub json: bool,
}

impl Report {
    pub fn write(&self, record: &Record, output: Output) -> Result<()> {
        let mut text = match &self.shown {
            Shown::Events(limit) => self.events(&record.events, *limit),
            Shown::Count if record.events.iter().any(|event| !event.stack.is_empty()) => {
                self.stacks(&record.events)
            }
            Shown::Count => String::new(),
            Shown::Histogram(field) => self.values(record, field)?,
            Shown::Times => self.times(record),
        };
        text += &self.end(record);
        tell_losses(record);
        output.write(&text)
    }

    fn events(&self, events: &[Event], limit: usize) -> String {
        let shown = events.iter().take(limit);
        let mut text = String::new();
        if !self.json && !events.is_empty() {
            let _ = writeln!(text, "{:>14} {:>8}  event", "at µs", "thread");
        }
        text.extend(shown.map(|event| match self.json {
            true => event_for_programs(event),
            false => line(event),
        }));
        if let (more @ 1.., false) = (events.len().saturating_sub(limit), self.json) {
            let _ = writeln!(text, "and {more} more (--limit)");
        }
        text
    }

    /// The most frequent first.
    fn stacks(&self, events: &[Event]) -> String {
        let mut counts = BTreeMap::<&[String], u64>::new();
        for event in events {
            *counts.entry(&event.stack).or_insert(0) += 1;
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let mut text = String::new();
        for (stack, count) in counts {
            if self.json {
                let _ = writeln!(
                    text,
                    "{}",
                    json!({"stack": {"count": count, "functions": stack}})
                );
                continue;
            }
            let _ = writeln!(text, "{count} times");
            for function in stack {
                let _ = writeln!(text, "    {function}");
            }
        }
        text
    }

    fn values(&self, record: &Record, field: &str) -> Result<String> {
        let values: Vec<_> = record
            .events
            .iter()
            .filter_map(|event| event.field(field))
            .collect();
        if values.len() < record.events.len() {
            return Err(Failure::usage(format!("{field}: no such field was kept")));
        }
        let for_people = |text: &&str| match self.json {
            true => (*text).to_owned(),
            false => plain(text.as_bytes()).into_owned(),
        };
        let values: Vec<_> = values.iter().map(for_people).collect();
        Ok(self.bars(&Histogram::of_texts(values.iter().map(String::as_str))))
    }

    fn times(&self, record: &Record) -> String {
        let calls = record.threads.iter().flat_map(|thread| &thread.calls.calls);
        let times: Vec<_> = calls.map(|call| call.duration).collect();
        let mut text = self.bars(&Histogram::of_times(&times));
        if !self.json && !times.is_empty() {
            text.insert_str(0, "ns\n");
        }
        text
    }

    fn bars(&self, histogram: &Histogram) -> String {
        if !self.json {
            return histogram.to_string();
        }
        let buckets = histogram.buckets.iter();
        let line = |b: &tane_lab::Bucket| json!({"bucket": {"values": b.values, "count": b.count}});
        buckets
            .map(|bucket| format!("{}\n", line(bucket)))
            .collect()
    }

    fn end(&self, record: &Record) -> String {
        let calls = record.threads.iter().map(|thread| thread.calls.calls.len());
        let found = record.events.len() + calls.sum::<usize>();
        let lost = match self.shown {
            Shown::Times => record.lost_calls,
            _ => record.lost_events,
        };
        // What was lost was a hit, too; of calls that cannot be said.
        let hits = match self.shown {
            Shown::Times => found as u64,
            _ => found as u64 + lost + record.lost_hits,
        };
        match self.json {
            true => {
                let end = json!({"hits": hits, "lost": lost, "missed": record.lost_hits});
                format!("{}\n", json!({ "probe": end }))
            }
            false => format!("{hits} hits\n"),
        }
    }
}
