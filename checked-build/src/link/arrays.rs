//! Functions that are called before main and at the end: constructors and destructors.
//!
//! As linkers do for programs, their addresses are put one behind the other, those with a
//! priority first, and symbols say where they begin and end. The start of the library calls them.

use super::{Linker, Part, MAIN};
use crate::rewrite::{is_of, FINI, INIT};
use crate::Error;
use object::{Object, ObjectSection, ObjectSymbol, SectionIndex};

/// Sections, and what is where they begin and end.
const ARRAYS: [(&str, &str, &str); 2] = [
    (INIT, "__init_array_start", "__init_array_end"),
    (FINI, "__fini_array_start", "__fini_array_end"),
];

/// Those without a priority come last.
fn priority(section: &str) -> u32 {
    let last = section.rsplit('.').next().unwrap_or_default();
    last.parse().unwrap_or(u32::MAX)
}

impl Linker<'_> {
    /// Puts them behind the other data. Where they begin and end, by the symbols of that.
    pub(super) fn place_arrays(&mut self) -> Result<Vec<(String, u64)>, Error> {
        let mut ends = Vec::new();
        for (name, start, end) in ARRAYS {
            let mut found: Vec<(u32, usize, SectionIndex)> = Vec::new();
            for (i, file) in self.objects.iter().enumerate() {
                let own = file.sections().filter_map(|section| {
                    let own = section.name().ok().filter(|section| is_of(section, name))?;
                    Some((priority(own), i, section.index()))
                });
                found.extend(own);
            }
            // In the order of the objects, where priorities are the same.
            found.sort_by_key(|(priority, i, _)| (*priority, *i));
            self.data.resize(self.data.len().next_multiple_of(8), 0);
            ends.push((start.to_owned(), self.data.len() as u64));
            for (_, i, index) in found {
                let section = self.objects[i].section_by_index(index);
                let bytes = section.and_then(|section| section.data().map(<[u8]>::to_vec));
                let bytes = bytes.map_err(|e| Error::new(format!("{name}: {e}")))?;
                let at = self.data.len() as u64;
                self.sections.insert((i, index), (Part::Data, at));
                self.data.extend(bytes);
            }
            let at = self.data.len() as u64;
            let begins = ends.last().is_some_and(|(_, begins)| *begins < at);
            if begins && !self.defines(MAIN) {
                return Err(Error::new(
                    "constructors and destructors are called by the library's start, which is \
                     missing here: give it with --libc, or call them",
                ));
            }
            ends.push((end.to_owned(), at));
        }
        Ok(ends)
    }

    fn defines(&self, name: &str) -> bool {
        let has = |file: &object::File| {
            let mut named = file.symbols().filter(|symbol| symbol.name() == Ok(name));
            named.any(|symbol| symbol.is_definition())
        };
        self.objects.iter().any(has)
    }
}
