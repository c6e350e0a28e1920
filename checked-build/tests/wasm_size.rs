//! Files of WebAssembly of few bytes that mean much.

mod common;

use common::can_run;
use tane_checked_build::{build, Options};
use tane_checked_run::Instance;
use tane_test_support::Scratch;

fn leb(mut n: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while n >= 0x80 {
        bytes.push(n as u8 | 0x80);
        n >>= 7;
    }
    bytes.push(n as u8);
    bytes
}

/// These with their length before them.
fn sized(bytes: &[u8]) -> Vec<u8> {
    [&leb(bytes.len())[..], bytes].concat()
}

/// So many functions of type 0, `() -> i32`, which are this body; the last one is "last". Type 1
/// gives what `results` are.
fn file(count: usize, body: &[u8], results: &[u8]) -> Vec<u8> {
    let types = [&[2, 0x60, 0, 1, 0x7f, 0x60, 0][..], &sized(results)].concat();
    let functions = [leb(count), vec![0; count]].concat();
    let export = [&[1, 4][..], b"last", &[0], &leb(count - 1)].concat();
    let code = [leb(count), sized(body).repeat(count)].concat();
    let mut file = b"\0asm\x01\0\0\0".to_vec();
    for (number, section) in [(1, types), (3, functions), (7, export), (10, code)] {
        file.push(number);
        file.extend(sized(&section));
    }
    file
}

#[test]
fn locals_that_nobody_names_are_none() {
    const LOCALS: usize = 50_000;
    // local.get of the last one
    let body = [
        &[1][..],
        &leb(LOCALS),
        &[0x7f, 0x20],
        &leb(LOCALS - 1),
        &[0x0b],
    ]
    .concat();
    // As a line each of them would be some 280 MB.
    let file = file(400, &body, &[]);
    assert!(file.len() < 8000);
    let s = Scratch::new("wasm-locals");
    std::fs::write(s.join("locals.wasm"), file).expect("a file");
    let module = build(&[&s.join("locals.wasm")], &Options::default());
    let module = module.unwrap_or_else(|e| panic!("{e}"));
    if can_run() {
        let mut instance = Instance::new(&module, 1 << 20, Vec::new()).expect("an instance");
        assert_eq!(instance.call("last", &[]).expect("exported"), Ok(0));
    }
}

#[test]
fn what_is_too_much_as_c_is_an_error() {
    const RESULTS: usize = 1000;
    const WAYS: usize = 20_000;
    // A block of 1,000 results, to which each way of a br_table takes them from one place above.
    let constants = [0x41, 1].repeat(RESULTS + 1);
    let ways = [leb(WAYS), vec![0; WAYS + 1]].concat();
    let drops = [0x1a].repeat(RESULTS - 1);
    let body = [
        &[0, 0x02, 1][..],
        &constants,
        &[0x41, 0, 0x0e],
        &ways,
        &[0x0b],
        &drops,
        &[0x0b],
    ];
    let file = file(1, &body.concat(), &[0x7f; RESULTS]);
    assert!(file.len() < 30_000);
    let s = Scratch::new("wasm-ways");
    std::fs::write(s.join("ways.wasm"), file).expect("a file");
    let error = build(&[&s.join("ways.wasm")], &Options::default()).expect_err("too much");
    assert!(error.to_string().contains("too large"), "{error}");
}
