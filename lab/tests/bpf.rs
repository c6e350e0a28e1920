//! Programs of BPF: what they find out, when they run, and which are refused.

mod common;

use common::{assert_healthy, kernel, tmp, Done};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use tane::Kernel;
use tane_lab::{shown, Data, Error, Lab, Map, Trace};
use tane_test_support::{compile_bpf, Scratch};

/// What clang makes of a program in C.
fn compiled(source: &str) -> Vec<u8> {
    let s = Scratch::new("bpf");
    let [from, to] = ["program.bpf.c", "program.o"].map(|name| s.join(name));
    std::fs::write(&from, source).expect("the source");
    compile_bpf(&from, &to);
    std::fs::read(&to).expect("an object")
}

/// The program of counts.bpf.c.
fn counts() -> Vec<u8> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/counts.bpf.c");
    compiled(&std::fs::read_to_string(source).expect("the source"))
}

/// A program around this.
fn program(body: &str) -> Vec<u8> {
    let head = "#include <linux/bpf.h>\n#include <bpf/bpf_helpers.h>\n";
    let tail = "char LICENSE[] SEC(\"license\") = \"GPL\";\n";
    compiled(&format!("{head}{body}\n{tail}"))
}

fn map<'a>(data: &'a Data, name: &str) -> &'a Map {
    let found = data.maps.iter().find(|map| map.name == name);
    found.unwrap_or_else(|| panic!("no {name}: {data:?}"))
}

fn variable(data: &Data, name: &str) -> String {
    let found = data.variables.iter().find(|variable| variable.name == name);
    let found = found.unwrap_or_else(|| panic!("no {name}: {data:?}"));
    shown(&found.value)
}

fn entries(map: &Map) -> Vec<(String, u64)> {
    let entry = |entry: &tane_lab::Entry| (shown(&entry.key), entry.sum().expect("a number"));
    let mut entries: Vec<_> = map.entries.iter().map(entry).collect();
    entries.sort();
    entries
}

/// Files of that many bytes.
fn write(kernel: &Kernel, sizes: &[usize]) {
    let tmp = tmp(kernel);
    for size in sizes {
        tmp.write("file", vec![b'x'; *size]).expect("writes");
    }
}

fn refusal(lab: &Lab, object: &[u8]) -> String {
    match lab.programs("some.o", object) {
        Err(error @ Error::Refused { .. }) => error.to_string(),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was loaded"),
    }
}

#[test]
fn programs_find_out_what_comes_by_and_how_it_returns() {
    let Some(kernel) = kernel() else { return };
    let lab = kernel.trace().unwrap();
    let programs = lab.programs("counts.o", &counts()).unwrap();
    // They are there, and do not run yet.
    write(&kernel, &[50]);
    programs.start().unwrap();
    programs.start().unwrap();
    write(&kernel, &[1, 30, 30, 700]);
    programs.stop();
    write(&kernel, &[9]);
    let data = programs.data().unwrap();
    let by_size = entries(map(&data, "by_size"));
    assert_eq!(by_size, [("30".into(), 2), ("700".into(), 1)]);
    assert_eq!(map(&data, "by_size").kind, "hash");
    let per_cpu = entries(map(&data, "per_cpu"));
    assert_eq!(per_cpu.len(), 4);
    assert_eq!(per_cpu[2], ("2".into(), 760));
    assert_eq!(variable(&data, "returned"), "861");
    assert_eq!(variable(&data, "first_bytes"), "\"xxxxxxxxxxxxxxx\"");
    let stacks = &map(&data, "stacks").entries;
    let has = |stack: &[String], name: &str| stack.iter().any(|function| function == name);
    let from_a_call = |entry: &tane_lab::Entry| {
        entry.stack[0] == "vfs_write" && has(&entry.stack, "tane_gate_call")
    };
    assert!(stacks.iter().any(from_a_call), "{stacks:?}");
    // A constant is none.
    assert!(data
        .variables
        .iter()
        .all(|variable| variable.name != "least"));
    assert_eq!(programs.missed().unwrap(), 0);
    // They go on with what they have.
    programs.start().unwrap();
    let before = programs.data().unwrap();
    write(&kernel, &[30]);
    let data = programs.data().unwrap();
    assert_eq!(entries(map(&data, "by_size"))[0], ("30".into(), 3));
    // By the tracepoint's fields and by its arguments it is the same.
    let new = |name: &str| {
        let number = |data: &Data| variable(data, name).parse::<u64>().expect("a number");
        number(&data) - number(&before)
    };
    assert_ne!(new("allocations"), 0);
    assert_eq!(new("raw_allocations"), new("allocations"));
    drop(programs);
    assert_healthy(&kernel);
}

#[test]
fn a_recording_has_what_programs_print_and_find_out() {
    let Some(kernel) = kernel() else { return };
    let lab = kernel.trace().unwrap();
    let recording = lab.recording().calls(false);
    let recorder = recording.programs("counts.o", &counts()).prepare().unwrap();
    write(&kernel, &[50]);
    recorder.start().unwrap();
    write(&kernel, &[30, 40]);
    let record = recorder.read().unwrap();
    let printed = record
        .events
        .iter()
        .filter(|event| event.name == "bpf_trace_printk");
    let printed: Vec<_> = printed.map(|event| &event.text[..]).collect();
    assert_eq!(printed, ["wrote 30", "wrote 40"]);
    let [(file, data)] = &record.programs[..] else {
        panic!("{:?}", record.programs);
    };
    assert_eq!(file, "counts.o");
    let by_size = entries(map(data, "by_size"));
    assert_eq!(by_size, [("30".into(), 1), ("40".into(), 1)]);
    drop(recorder);
    assert_healthy(&kernel);
}

#[test]
fn what_is_sent_by_a_ring_buffer_arrives_in_order_and_once() {
    let Some(kernel) = kernel() else { return };
    let lab = kernel.trace().unwrap();
    let ring = "#include <linux/ptrace.h>\n\
                struct { __uint(type, BPF_MAP_TYPE_RINGBUF); __uint(max_entries, 4096); }\n\
                sent SEC(\".maps\");\n\
                int without_room;\n\
                SEC(\"kprobe/vfs_write\") int p(struct pt_regs *ctx) {\n\
                __u64 record[3] = { 7, ctx->rdx, 8 };\n\
                if (ctx->rdx == 5) { void *none = bpf_ringbuf_reserve(&sent, 100, 0);\n\
                if (none) bpf_ringbuf_discard(none, 0); }\n\
                if (bpf_ringbuf_output(&sent, record, sizeof(record), 0)) without_room++;\n\
                return 0; }";
    let programs = lab.programs("ring.o", &program(ring)).unwrap();
    programs.start().unwrap();
    let sizes = |data: &Data| -> Vec<u64> {
        let word = |bytes: &[u8], n: usize| {
            u64::from_le_bytes(bytes[8 * n..8 * n + 8].try_into().expect("8 bytes"))
        };
        let size = |entry: &tane_lab::Entry| {
            let [value] = &entry.values[..] else {
                panic!("{entry:?}")
            };
            assert_eq!((word(value, 0), word(value, 2)), (7, 8));
            word(value, 1)
        };
        map(data, "sent").entries.iter().map(size).collect()
    };
    // Around its end, several times.
    for round in 0..40 {
        write(&kernel, &[3, 5, 9 + round, 700]);
        let data = programs.data().unwrap();
        assert_eq!(sizes(&data), [3, 5, 9 + round as u64, 700]);
    }
    write(&kernel, &vec![1; 200]);
    let data = programs.data().unwrap();
    // Of 32 bytes each, and the ring is never quite full.
    assert_eq!(sizes(&data), vec![1; 127]);
    assert_eq!(variable(&data, "without_room"), "73");
    assert!(sizes(&programs.data().unwrap()).is_empty());
    assert_healthy(&kernel);
}

#[test]
fn a_function_that_may_fail_fails_as_a_program_says() {
    let Some(kernel) = kernel() else { return };
    let lab = kernel.trace().unwrap();
    let full = "#include <linux/ptrace.h>\n\
                SEC(\"kprobe/sys_pwrite64\") int p(struct pt_regs *ctx) {\n\
                if (ctx->rdx == 4) bpf_override_return(ctx, -28);\n\
                return 0; }";
    let programs = lab.programs("full.o", &program(full)).unwrap();
    let file = tmp(&kernel).create("file").unwrap();
    assert_eq!(file.write_at(b"text", 0).unwrap(), 4);
    programs.start().unwrap();
    let failed = file.write_at(b"text", 0).unwrap_err();
    assert_eq!(tane::errno_of(&failed), Some(libc::ENOSPC));
    assert_eq!(file.write_at(b"other", 0).unwrap(), 5);
    programs.stop();
    assert_eq!(file.write_at(b"text", 0).unwrap(), 4);
    let other = "SEC(\"kprobe/vfs_write\") int p(void *ctx) {\n\
                 bpf_override_return(ctx, -28); return 0; }";
    let why = refusal(&lab, &program(other));
    assert!(why.contains("error_injection"), "{why}");
    assert_healthy(&kernel);
}

#[test]
fn what_the_verifier_refuses_is_told_in_its_words() {
    let Some(kernel) = kernel() else { return };
    let lab = kernel.trace().unwrap();
    for (name, body, said) in [
        (
            "pointer",
            "SEC(\"kprobe/vfs_write\") int p(void *ctx) { return *(int *)0x1000; }",
            "invalid mem access",
        ),
        (
            "loop",
            "volatile int n; SEC(\"kprobe/vfs_write\") int p(void *ctx) { for (;;) n++; }",
            "infinite loop",
        ),
        (
            "context",
            "SEC(\"kprobe/vfs_write\") int p(long *ctx) { return ctx[1000]; }",
            "invalid bpf_context access",
        ),
    ] {
        let why = refusal(&lab, &program(body));
        assert!(why.starts_with("some.o: program p: "), "{name}: {why}");
        assert!(why.contains("the verifier refuses it"), "{name}: {why}");
        assert!(why.contains(said), "{name}: {why}");
    }
    assert_healthy(&kernel);
}

#[test]
fn what_cannot_run_here_is_refused_with_what_could() {
    let Some(kernel) = kernel() else { return };
    let lab = kernel.trace().unwrap();
    let at = |section: &str| format!("SEC(\"{section}\") int p(void *ctx) {{ return 0; }}");
    let ring = "struct { __uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY); \
                __uint(key_size, 4); __uint(value_size, 4); } sent SEC(\".maps\");\n\
                SEC(\"kprobe/vfs_write\") int p(void *ctx) {\n\
                int n = 1; bpf_perf_event_output(ctx, &sent, 0, &n, 4); return 0; }";
    let fields = "struct file { int f_mode; } __attribute__((preserve_access_index));\n\
                  SEC(\"kprobe/vfs_write\") int p(void *ctx) {\n\
                  int mode; bpf_probe_read_kernel(&mode, 4, &((struct file *)ctx)->f_mode);\n\
                  return mode; }";
    for (name, body, said) in [
        ("name", at("kprobe/vfs_writ"), "vfs_write"),
        (
            "behind",
            at("kprobe/vfs_write+100000"),
            "not in this function",
        ),
        ("offset", at("kprobe/vfs_write+x"), "no offset"),
        (
            "itself",
            at("kprobe/kprobe_ftrace_handler"),
            "no probe may be there",
        ),
        ("nowhere", at("kprobe"), "does not say of what"),
        (
            "event",
            at("tp/kmem/kmem_cache_alloq"),
            "kmem:kmem_cache_alloc",
        ),
        ("half", at("tracepoint/kmem_cache_alloc"), "GROUP/NAME"),
        ("raw", at("raw_tp/kmem_cache_alloq"), "kmem_cache_alloc"),
        ("xdp", at("xdp"), "kprobe, kretprobe, tracepoint"),
        ("perf", ring.into(), "use a ring buffer"),
        ("fields", fields.into(), "BTF"),
        ("nothing", "int variable;".into(), "no program"),
    ] {
        let why = refusal(&lab, &program(&body));
        assert!(why.starts_with("some.o: "), "{name}: {why}");
        assert!(why.contains(said), "{name}: {why}");
    }
    let why = refusal(&lab, b"text");
    assert!(why.contains("no object"), "{why}");
    let own = std::fs::read("/proc/self/exe").expect("this program");
    let why = refusal(&lab, &own);
    assert!(why.contains("clang -target bpf"), "{why}");
    assert_healthy(&kernel);
}

#[test]
fn changed_objects_are_refused_or_run_and_nothing_else() {
    let Some(kernel) = kernel() else { return };
    let lab = kernel.trace().unwrap();
    let whole = counts();
    // A linear congruential generator, the same each time.
    let mut seed = 12_u64;
    let mut random = move |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as usize % below
    };
    let mut run = 0;
    for _ in 0..400 {
        let mut object = whole.clone();
        for _ in 0..1 + random(3) {
            let at = random(object.len());
            object[at] = match random(3) {
                0 => random(256) as u8,
                1 => object[at] ^ 1 << random(8),
                _ => 0xff,
            };
        }
        if random(10) == 0 {
            object.truncate(random(whole.len()));
        }
        if let Ok(programs) = lab.programs("changed.o", &object) {
            programs.start().unwrap();
            write(&kernel, &[3]);
            programs.stop();
            let _ = programs.data();
            run += 1;
        }
    }
    assert!(run > 15, "{run} did run");
    assert_healthy(&kernel);
}

#[test]
fn programs_run_on_all_cpus_and_go_while_they_are_hot() {
    let Some(kernel) = common::boot(4, "") else {
        return;
    };
    let lab = kernel.trace().unwrap();
    let object = counts();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = Done(&done);
        for _ in 0..4 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    // SAFETY: the call has no arguments.
                    unsafe { kernel.syscall(libc::SYS_getppid, [0; 6]) };
                }
            });
        }
        for _ in 0..10 {
            let programs = lab.programs("counts.o", &object).unwrap();
            programs.start().unwrap();
            let hits = || variable(&programs.data().unwrap(), "inside").parse::<u64>();
            tane_test_support::eventually("they run", || hits().unwrap() > 1000);
            // Dropped as they run.
        }
    });
    assert_healthy(&kernel);
}
