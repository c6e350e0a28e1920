//! Functions by address, as /proc/kallsyms has them.

use crate::error::Result;
use tane::Kernel;

/// The names of all functions of a kernel.
pub struct Symbols(Vec<(u64, String)>);

impl Symbols {
    pub fn read(kernel: &Kernel) -> Result<Self> {
        let text = kernel.tree("/proc")?.read_to_string("kallsyms")?;
        let lines = text.lines().filter_map(|line| {
            let mut words = line.split_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            let code = matches!(words.next()?, "t" | "T" | "w" | "W");
            code.then(|| (address, words.next().unwrap_or_default().to_owned()))
        });
        let mut symbols: Vec<_> = lines.collect();
        symbols.sort();
        Ok(Symbols(symbols))
    }

    /// The bytes of a function and of what fills the room up to the next one.
    pub fn size(&self, function: &str) -> Option<u64> {
        let (start, _) = self.0.iter().find(|symbol| symbol.1 == function)?;
        let next = self.0.iter().find(|symbol| symbol.0 > *start);
        // Behind the last one, in a module, its page ends.
        let end = next.map_or((start | 0xfff) + 1, |next| next.0);
        Some(end - start)
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|symbol| symbol.1.as_str())
    }

    /// The function that has this address, or the address.
    pub fn name(&self, address: u64) -> String {
        let behind = self.0.partition_point(|symbol| symbol.0 <= address);
        let last = behind.checked_sub(1).and_then(|at| self.0.get(at));
        // Of several names for one place the first.
        let first = last.map(|last| self.0.partition_point(|symbol| symbol.0 < last.0));
        match first.and_then(|at| self.0.get(at)) {
            Some((_, name)) => name.clone(),
            None => format!("{address:#x}"),
        }
    }
}
