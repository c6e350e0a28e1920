//! An instance that was mapped for a kernel that never comes. Alone in its process, so that nobody
//! else has asked for the handlers of faults.

use tane_checked::{Export, Layout, Module};
use tane_checked_run::{Calls, Instance, Trap};

#[test]
fn faults_of_an_instance_that_was_only_mapped_are_traps() {
    if let Some(what) = tane_checked_run::lacks() {
        return tane_test_support::skip(what);
    }
    // mov %gs:(%eax),%eax; ret
    let code = [0x65, 0x67, 0x8b, 0x00, 0xc3];
    let module = Module {
        code: &code,
        table: vec![0],
        read_only: &[],
        data: &[],
        zeroes: 0,
        imports: Vec::new(),
        exports: vec![Export { name: "f", at: 0 }],
        heights: Vec::new(),
        types: None,
        layout: Layout::new(code.len() as u64, 1, 0, 0).expect("it is small"),
    };
    let mapped = Instance::mapped(&module.to_bytes(), 1 << 16, Calls::default(), Vec::new());
    let mut instance = mapped.unwrap_or_else(|e| panic!("{e:?}"));
    let called = instance.call("f", &[]).expect("exported");
    assert_eq!(called, Err(Trap::Memory));
}
