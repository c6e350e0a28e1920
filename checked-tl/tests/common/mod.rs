//! A module of TL, run.

use std::sync::{Arc, Mutex};
use tane_checked_run::{Import, Instance, Trap};

/// What a module gives, and what it has printed.
pub fn run(module: &[u8], name: &str, arguments: &[u64]) -> (Result<u64, Trap>, Vec<u8>) {
    let printed = Arc::new(Mutex::new(Vec::new()));
    let to = Arc::clone(&printed);
    let output: Import = Box::new(move |[_, from, bytes, ..], memory| {
        let bytes = memory
            .read(from, bytes as usize)
            .expect("it is the module's");
        to.lock().expect("no panic").extend(&bytes);
        bytes.len() as u64
    });
    let mut instance =
        Instance::new(module, 4096, vec![("tane_output", output)]).expect("an instance");
    let result = instance.call(name, arguments).expect("exported");
    let printed = printed.lock().expect("no panic").clone();
    (result, printed)
}
