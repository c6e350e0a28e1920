//! Which of an archive's objects a program needs: those that have what is missing, and what
//! these miss in their turn.

use crate::link::Names;
use crate::Error;
use object::read::archive::ArchiveFile;
use std::collections::HashMap;
use std::path::Path;

/// Adds what the objects need of this archive to them.
pub fn add(archive: &Path, objects: &mut Vec<Vec<u8>>) -> Result<(), Error> {
    let bytes = std::fs::read(archive).map_err(|e| Error::of_host(archive, &e))?;
    let bad = |e| Error::Host(format!("{}: is no library: {e}", archive.display()));
    let file = ArchiveFile::parse(&*bytes).map_err(bad)?;
    // The first that has a name is whose it is.
    let mut has = HashMap::new();
    for symbol in file.symbols().map_err(bad)?.into_iter().flatten() {
        let symbol = symbol.map_err(bad)?;
        let name = String::from_utf8_lossy(symbol.name()).into_owned();
        has.entry(name).or_insert(symbol.offset());
    }
    let mut names = Names::default();
    // What main() is called by.
    names.needed.insert(crate::link::MAIN.into());
    for object in objects.iter() {
        names.add(object)?;
    }
    let mut taken = Vec::new();
    loop {
        let missing = names.missing();
        let offsets = missing.iter().filter_map(|name| has.get(name));
        let Some(&offset) = offsets
            .into_iter()
            .find(|offset| !taken.contains(&offset.0))
        else {
            return Ok(());
        };
        taken.push(offset.0);
        let member = file.member(offset).map_err(bad)?;
        let object = member.data(&*bytes).map_err(bad)?.to_vec();
        names.add(&object)?;
        objects.push(object);
    }
}
