//! What a limit costs. Alone in its process, whose threads it looks at.

use std::fs::read_to_string;
use std::time::{Duration, Instant};
use tane_checked::{Export, Layout, Module};
use tane_checked_run::{Instance, Trap};

/// How often the thread that watches has slept, once it has its name.
fn sleeps() -> u64 {
    loop {
        for thread in std::fs::read_dir("/proc/self/task").expect("threads") {
            let folder = thread.expect("a thread").path();
            let read = |name| read_to_string(folder.join(name)).unwrap_or_default();
            if read("comm").trim() == "tane-watch" {
                let status = read("status");
                let mut lines = status.lines();
                let line = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
                return line.expect("a count").trim().parse().expect("a number");
            }
        }
        std::thread::yield_now();
    }
}

#[test]
fn calls_under_a_limit_wake_nobody_and_still_end() {
    if let Some(what) = tane_checked_run::lacks() {
        return tane_test_support::skip(what);
    }
    // ret, and jmp .
    let code = [0xc3, 0xeb, 0xfe];
    let export = |name, at| Export { name, at };
    let module = Module {
        code: &code,
        table: vec![0],
        read_only: &[],
        data: &[],
        zeroes: 0,
        imports: Vec::new(),
        exports: vec![export("returns", 0), export("goes_on", 1)],
        heights: Vec::new(),
        types: None,
        layout: Layout::new(code.len() as u64, 1, 0, 0).expect("it is small"),
    };
    let made = |limit| {
        let made = Instance::new(&module.to_bytes(), 1 << 16, Vec::new());
        let mut instance = made.unwrap_or_else(|e| panic!("{e:?}"));
        instance.limit(limit).expect("a thread");
        instance
    };
    let mut instance = made(Duration::from_secs(60));
    let returns = instance.function("returns").expect("exported");
    let (before, began) = (sleeps(), Instant::now());
    for _ in 0..1000 {
        for _ in 0..10 {
            let result = instance.call_function(returns, &[]).expect("a call");
            assert!(result.is_ok(), "{result:?}");
        }
        std::thread::yield_now();
    }
    let slept = sleeps() - before;
    // It looks once a second.
    let most = 100 + 2 * began.elapsed().as_secs();
    assert!(slept < most, "it was woken {slept} times by 10,000 calls");
    // Whatever it sleeps until, it is there in time; twice, as it may be awake the second time.
    let mut instance = made(Duration::from_secs(1));
    for _ in 0..2 {
        let began = Instant::now();
        let result = instance.call("goes_on", &[]).expect("exported");
        assert_eq!(result, Err(Trap::Time));
        assert!(began.elapsed() >= Duration::from_secs(1));
    }
}
