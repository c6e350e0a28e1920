//! What is in the maps and variables of programs.

use super::calls::{look_up, next_key, Fd};
use super::{object, ring};
use crate::error::{Error, Result};
use crate::symbols::Symbols;
use aya_obj::generated::bpf_map_type;

/// What programs have found out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Data {
    /// In the order of their names.
    pub maps: Vec<Map>,
    /// In the order of their names; constants are not among them.
    pub variables: Vec<Variable>,
}

/// A map of a program's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    /// As its program calls it.
    pub name: String,
    /// As Linux calls its kind: hash, array, lru_hash and others.
    pub kind: &'static str,
    /// In the order in which the kernel has them.
    pub entries: Vec<Entry>,
}

/// A key of a map, and what it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// In the bytes of the kernel; none in a ringbuf, whose records are in their order.
    pub key: Vec<u8>,
    /// One, or in a map that has one for each CPU as many as there may be.
    pub values: Vec<Vec<u8>>,
    /// In a stack_trace: the functions, the innermost first, and whatever else has its address
    /// on the stack.
    pub stack: Vec<String>,
}

/// A variable of a program's that is no constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// As its program calls it.
    pub name: String,
    /// In the bytes of the kernel.
    pub value: Vec<u8>,
}

/// What is to be done with a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Keys that are there, with values. True: one for each CPU.
    Keys(&'static str, bool),
    /// Numbers from 0 on, all of which are there.
    Numbers(&'static str, bool),
    /// What programs sent: a ring, that is empty when it was read.
    Records,
    /// Nothing that could be looked at: which programs call one another.
    Nothing,
    Variables,
    Constants,
}

impl Kind {
    pub fn of_number(number: u32) -> std::result::Result<Kind, String> {
        use bpf_map_type::*;
        const KNOWN: &[(bpf_map_type, Kind)] = &[
            (BPF_MAP_TYPE_HASH, Kind::Keys("hash", false)),
            (BPF_MAP_TYPE_LRU_HASH, Kind::Keys("lru_hash", false)),
            (BPF_MAP_TYPE_PERCPU_HASH, Kind::Keys("percpu_hash", true)),
            (
                BPF_MAP_TYPE_LRU_PERCPU_HASH,
                Kind::Keys("lru_percpu_hash", true),
            ),
            (BPF_MAP_TYPE_LPM_TRIE, Kind::Keys("lpm_trie", false)),
            (BPF_MAP_TYPE_STACK_TRACE, Kind::Keys("stack_trace", false)),
            (BPF_MAP_TYPE_ARRAY, Kind::Numbers("array", false)),
            (
                BPF_MAP_TYPE_PERCPU_ARRAY,
                Kind::Numbers("percpu_array", true),
            ),
            (BPF_MAP_TYPE_RINGBUF, Kind::Records),
            (BPF_MAP_TYPE_PROG_ARRAY, Kind::Nothing),
        ];
        let known = KNOWN.iter().find(|(kind, _)| *kind as u32 == number);
        known.map(|(_, kind)| *kind).ok_or_else(|| {
            let kind = match number {
                n if n == BPF_MAP_TYPE_PERF_EVENT_ARRAY as u32 => "a perf event array".into(),
                n => format!("of kind {n}"),
            };
            format!("it is {kind}, which nobody reads here: use a ring buffer, or a hash")
        })
    }
}

impl Data {
    pub(super) fn add(
        &mut self,
        map: &object::Map,
        fd: &Fd,
        cpus: usize,
        symbols: &Symbols,
    ) -> Result<()> {
        let (kind, per_cpu, all) = match map.kind {
            Kind::Keys(kind, per_cpu) => (kind, per_cpu, false),
            Kind::Numbers(kind, per_cpu) => (kind, per_cpu, true),
            Kind::Variables => return self.add_variables(map, fd),
            Kind::Records => return self.add_records(map, fd),
            Kind::Nothing | Kind::Constants => return Ok(()),
        };
        let mut entries = Vec::new();
        let mut add = |key: &[u8]| -> Result<()> {
            if let Some(values) = values(map, fd, key, per_cpu.then_some(cpus))? {
                let stack = match map.kind {
                    Kind::Keys("stack_trace", _) => functions(&values, symbols),
                    _ => Vec::new(),
                };
                let key = key.to_vec();
                entries.push(Entry { key, values, stack });
            }
            Ok(())
        };
        if all {
            for number in 0..map.max_entries {
                add(&number.to_ne_bytes())?;
            }
        } else {
            let mut key: Option<Vec<u8>> = None;
            let mut next = vec![0; map.key_size as usize];
            let mut seen = 0;
            // Where keys come and go meanwhile it could begin again.
            while seen < map.max_entries
                && next_key(fd, key.as_deref(), &mut next).map_err(Error::File)?
            {
                add(&next)?;
                key = Some(next.clone());
                seen += 1;
            }
        }
        self.maps.push(Map {
            name: map.name.clone(),
            kind,
            entries,
        });
        Ok(())
    }

    fn add_records(&mut self, map: &object::Map, fd: &Fd) -> Result<()> {
        let records = ring::drain(fd, map.max_entries as usize).map_err(Error::File)?;
        let entry = |record| Entry {
            key: Vec::new(),
            values: vec![record],
            stack: Vec::new(),
        };
        self.maps.push(Map {
            name: map.name.clone(),
            kind: "ringbuf",
            entries: records.into_iter().map(entry).collect(),
        });
        Ok(())
    }

    fn add_variables(&mut self, map: &object::Map, fd: &Fd) -> Result<()> {
        let Some(values) = values(map, fd, &0u32.to_ne_bytes(), None)? else {
            return Ok(());
        };
        for (name, offset, size) in &map.variables {
            let value = values
                .first()
                .and_then(|all| all.get(*offset..offset + size));
            self.variables.push(Variable {
                name: name.clone(),
                value: value.unwrap_or(&[]).to_vec(),
            });
        }
        self.variables.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(())
    }
}

/// Addresses up to the first that is none.
fn functions(values: &[Vec<u8>], symbols: &Symbols) -> Vec<String> {
    let words = values.iter().flat_map(|value| value.chunks(8));
    let addresses = words.map_while(|word| number(word).filter(|address| *address != 0));
    addresses.map(|address| symbols.name(address)).collect()
}

/// The values of a key, if it is still there.
fn values(
    map: &object::Map,
    fd: &Fd,
    key: &[u8],
    cpus: Option<usize>,
) -> Result<Option<Vec<Vec<u8>>>> {
    let size = map.value_size as usize;
    // The kernel has those of CPUs one behind the other, in whole words.
    let room = cpus.map_or(size, |cpus| size.next_multiple_of(8) * cpus);
    let mut bytes = vec![0; room];
    if !look_up(fd, key, &mut bytes).map_err(Error::File)? {
        return Ok(None);
    }
    let pieces = bytes.chunks(room / cpus.unwrap_or(1).max(1));
    Ok(Some(pieces.map(|piece| piece[..size].to_vec()).collect()))
}

impl Entry {
    /// All values together, if they are numbers of at most 8 bytes.
    pub fn sum(&self) -> Option<u64> {
        let mut numbers = self.values.iter().map(|value| number(value));
        numbers.try_fold(0u64, |sum, number| Some(sum.wrapping_add(number?)))
    }

    /// Nothing but zeros, as an array's entries are at first.
    pub fn is_zero(&self) -> bool {
        self.values.iter().flatten().all(|byte| *byte == 0)
    }
}

fn number(bytes: &[u8]) -> Option<u64> {
    let mut number = [0; 8];
    let is_number = [1, 2, 4, 8].contains(&bytes.len());
    is_number.then(|| {
        number[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(number)
    })
}

/// For people: a number without a sign, a text, or bytes.
pub fn shown(bytes: &[u8]) -> String {
    if let Some(number) = number(bytes) {
        return number.to_string();
    }
    let end = bytes.iter().position(|byte| *byte == 0);
    let (text, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
    let is_text = text.iter().all(|byte| matches!(byte, b' '..=b'~'));
    if is_text && !text.is_empty() && rest.iter().all(|byte| *byte == 0) {
        return format!("\"{}\"", String::from_utf8_lossy(text));
    }
    let words = bytes.chunks(8).map(|word| {
        let digits: Vec<_> = word.iter().map(|byte| format!("{byte:02x}")).collect();
        digits.concat()
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_as_what_they_are_likely_to_be() {
        assert_eq!(shown(&[7]), "7");
        assert_eq!(shown(&[0x2c, 1, 0, 0]), "300");
        assert_eq!(shown(&u64::MAX.to_le_bytes()), "18446744073709551615");
        assert_eq!(shown(b"tane\0\0\0\0\0\0\0\0\0\0\0\0"), "\"tane\"");
        assert_eq!(shown(&[1; 12]), "0101010101010101 01010101");
        assert_eq!(shown(&[0; 3]), "000000");
        assert_eq!(shown(&[]), "");
    }

    #[test]
    fn values_of_cpus_are_one_number() {
        let values = vec![vec![1, 0, 0, 0], vec![2, 1, 0, 0]];
        let entry = Entry {
            key: vec![],
            values,
            stack: vec![],
        };
        assert_eq!(entry.sum(), Some(259));
        assert!(!entry.is_zero());
    }
}
