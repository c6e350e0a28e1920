//! The container, written. Nothing that is proven relies on it.

use crate::module::{Module, TYPED, VERSION};

impl Module<'_> {
    /// The file: what [`Module::parse`] reads. Lengths beyond the format's are cut by it,
    /// and what comes of that is refused when it is read.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut names: Vec<&str> = self.imports.clone();
        names.extend(self.exports.iter().map(|export| export.name));
        let names = names.concat();
        let counts = [
            u32::from_le_bytes(*b"TMOD"),
            self.types.map_or(VERSION, |_| TYPED),
            self.code.len() as u32,
            self.table.len() as u32,
            self.read_only.len() as u32,
            self.data.len() as u32,
            self.zeroes,
            self.imports.len() as u32,
            self.exports.len() as u32,
            self.heights.len() as u32,
            names.len() as u32,
        ];
        let mut file: Vec<u8> = counts.iter().flat_map(|n| n.to_le_bytes()).collect();
        let types = self.types.map(|types| types.len() as u32);
        file.extend(types.into_iter().flat_map(u32::to_le_bytes));
        file.extend(self.code);
        file.extend(self.table.iter().flat_map(|entry| entry.to_le_bytes()));
        file.extend(self.read_only);
        file.extend(self.data);
        let lengths = self.imports.iter().map(|name| name.len() as u16);
        file.extend(lengths.flat_map(u16::to_le_bytes));
        let exports = self.exports.iter().map(|it| (it.name.len() as u32, it.at));
        let numbers = exports.chain(self.heights.iter().copied());
        file.extend(numbers.flat_map(|(a, b)| [a, b].map(u32::to_le_bytes).concat()));
        file.extend(names.as_bytes());
        file.extend(self.types.unwrap_or_default());
        file
    }
}
