//! Probes: how often a function, or an instruction in it, is reached, with what, and
//! what it returns.

use crate::error::{Error, Result};
use crate::nearest::no_such;
use crate::Lab;
use std::sync::atomic::{AtomicU32, Ordering};

/// All of ours are events of this group.
pub(crate) const GROUP: &str = "tane";

/// A probe in a kernel. Dropping it takes it out.
pub struct Probe<'a> {
    lab: &'a Lab,
    name: String,
}

impl Lab {
    /// A probe at `place`: a function as "vfs_write", or an instruction in one as
    /// "vfs_write+25". `fields` says what of it to keep, as "size=$arg3": arguments,
    /// registers and memory, in the words of Documentation/trace/kprobetrace.rst.
    ///
    /// Errors: [`Error::Refused`] where no probe may be, in the kernel's words: what
    /// probes are made of, the middle of an instruction, a name that is no function's.
    pub fn probe(&self, place: &str, fields: &str) -> Result<Probe<'_>> {
        self.place('p', place, fields)
    }

    /// A probe where `function` returns: "value=$retval:s64" is what it returns.
    /// As [`Lab::probe`] otherwise.
    pub fn return_probe(&self, function: &str, fields: &str) -> Result<Probe<'_>> {
        self.place('r', function, fields)
    }

    fn place(&self, kind: char, place: &str, fields: &str) -> Result<Probe<'_>> {
        let probe = self.declare(kind, place, fields)?;
        probe.switch(true)?;
        Ok(probe)
    }

    /// The same, without an event yet.
    pub(crate) fn declare(&self, kind: char, place: &str, fields: &str) -> Result<Probe<'_>> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("p{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let refused = |why: &str| Error::Refused {
            what: format!("{place} {fields}").trim_end().to_owned(),
            why: why.to_owned(),
        };
        // Each would begin another command, or another word.
        if place.is_empty() || place.contains(|c: char| c.is_whitespace() || c == ';') {
            return Err(refused("a place is one word"));
        }
        if fields.contains(['\n', ';', '#']) {
            return Err(refused("fields are words in one line"));
        }
        // Linux would wait for a module that has it.
        if let Some((function, offset)) = place.split_once('+') {
            let size = self.symbols()?.size(function);
            if size.is_none() {
                return Err(refused(&self.no_function(function)?));
            }
            let offset: u64 = offset.parse().map_err(|_| refused("no offset in bytes"))?;
            if size.is_none_or(|size| offset >= size) {
                return Err(refused("not in this function"));
            }
        }
        let probe = Probe { lab: self, name };
        let command = format!("{kind}:{GROUP}/{} {place} {fields}\n", probe.name);
        if let Err(error) = self.command("kprobe_events", &command) {
            // There is nothing to take out.
            std::mem::forget(probe);
            let function = place.split('+').next().unwrap_or(place);
            return Err(match (self.symbols()?.size(function), error) {
                (None, _) => refused(&self.no_function(function)?),
                // Its only words for what is on its list of such functions.
                (_, Error::Refused { why, .. }) if why == "Failed to register probe event" => {
                    refused("no probe may be there: it is what probes are made of, or the way in")
                }
                (_, Error::Refused { why, .. }) => refused(&why),
                (_, error) => error,
            });
        }
        Ok(probe)
    }
}

impl Lab {
    fn no_function(&self, name: &str) -> Result<String> {
        Ok(no_such("function", name, self.symbols()?.names()))
    }
}

impl Probe<'_> {
    /// What its events are called.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn file(&self, file: &str) -> String {
        format!("events/{GROUP}/{}/{file}", self.name)
    }

    fn switch(&self, on: bool) -> Result<()> {
        self.lab
            .set(&self.file("enable"), if on { "1" } else { "0" })
    }

    /// How often it was reached. Where the kernel was busy with another probe, it is
    /// in [`Probe::missed`] instead.
    pub fn hits(&self) -> Result<u64> {
        self.profile().map(|(hits, _)| hits)
    }

    /// How often it was reached while a probe was at work on the same CPU.
    pub fn missed(&self) -> Result<u64> {
        self.profile().map(|(_, missed)| missed)
    }

    fn profile(&self) -> Result<(u64, u64)> {
        let table = self.lab.get("kprobe_profile")?;
        let mut lines = table.lines().map(|line| line.split_whitespace());
        lines
            .find_map(|mut words| {
                let hits = (words.next()? == self.name).then(|| words.next())?;
                Some((hits?.parse().ok()?, words.next()?.parse().ok()?))
            })
            .ok_or(Error::Record("a probe is not in its list"))
    }

    /// Count from now on by the value of a field; [`Probe::counts`] has them.
    pub fn count_by(&self, field: &str) -> Result<()> {
        self.lab
            .command(&self.file("trigger"), &format!("hist:keys={field}\n"))
    }

    /// The values of that field and how often each was there, the most frequent
    /// last; values in the kernel's words.
    pub fn counts(&self) -> Result<Vec<(String, u64)>> {
        let text = self.lab.get(&self.file("hist"))?;
        let lines = text.lines().filter_map(|line| {
            let (key, count) = line.split_once("} hitcount:")?;
            let (_, value) = key.trim_start_matches('{').split_once(':')?;
            Some((value.trim().to_owned(), count.trim().parse().ok()?))
        });
        Ok(lines.collect())
    }
}

impl Drop for Probe<'_> {
    fn drop(&mut self) {
        // Nobody is there to hear of an error; and with the kernel it goes, too.
        let _ = self.lab.add(&self.file("trigger"), "!hist\n");
        let _ = self.switch(false);
        let _ = self
            .lab
            .add("kprobe_events", &format!("-:{GROUP}/{}\n", self.name));
    }
}
