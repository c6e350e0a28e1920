//! A module that was checked.

use tane_checked::{check, Module, Refusal};

/// A module that was checked: of one any number of instances are made, on any threads.
pub struct Checked(Vec<u8>);

impl Checked {
    /// Checks it.
    pub fn new(file: Vec<u8>) -> Result<Checked, Refusal> {
        check(&file)?;
        Ok(Checked(file))
    }

    /// What is in it.
    pub fn module(&self) -> Module<'_> {
        // Nobody else has the bytes.
        Module::parse(&self.0).unwrap_or_else(|_| unreachable!("it was checked"))
    }
}
