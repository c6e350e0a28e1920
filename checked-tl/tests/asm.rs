//! Typed assembly becomes modules that the checker accepts, and they become it again.

use tane_checked::{check, Module};
use tane_checked_run::{Import, Instance, Trap};
use tane_checked_tl::asm::{link, parse, print};

const SAMPLE: &str = r#"
heap 65536
text "hi\x00\n"
class record(int, #3)     # 3: a list's element
class array(int)          # 4
class record(fn1, int)    # 5: a function and a number
signature (int): int
signature (#5): int
slot field

# The sum of a list of the numbers up to rdi.
export fn sum(int): int
    call .reset
    sub rsp, 16
    xor ecx, ecx
    mov qword [rsp+8], rdi
    mov qword [rsp], 0
    xor ebx, ebx
    mov eax, 24
    call .new
    mov qword [rax], 3
next: 2 [rax #3, rsp+0 int, rsp+8 int]
    mov rcx, qword [rsp+8]
    test rcx, rcx
    je done
    mov qword [rax+8], rcx
    sub rcx, 1
    mov rdx, qword [rax+8]
    add qword [rsp], rdx
    mov qword [rsp+8], rcx
    jmp next
done: 2 [rsp+0 int]
    mov rax, qword [rsp]
    add rsp, 16
    ret

fn field(#5): int
    mov rax, qword [rdi+16]
    ret

export fn indirect(int): int
    call .reset
    push rdi
    mov eax, 24
    call .new
    mov qword [rax], 5
    pop rdi
    mov ecx, 1
    mov qword [rax+8], rcx
    mov qword [rax+16], rdi
    mov rbx, qword [rax+8]
    mov rdi, rax
    callslot rbx
    ret

export fn element(int): int
    call .reset
    mov eax, text0
    cmp rdi, qword [rax+8]
    jae bad
    movzx eax, byte [rax+rdi*1+16]
    ret
bad: 0 []
    ud2
"#;

fn made() -> Vec<u8> {
    let program = parse(SAMPLE).expect("it is read");
    let file = link(&program).expect("it is linked");
    if let Err(refusal) = check(&file) {
        panic!("{refusal}\n{SAMPLE}");
    }
    file
}

#[test]
fn what_is_assembled_is_accepted_and_computes() {
    let file = made();
    if let Some(what) = tane_checked_run::lacks() {
        return tane_test_support::skip(what);
    }
    let mut instance = Instance::new(&file, 4096, Vec::new()).expect("an instance");
    let mut call = |name: &str, n: u64| instance.call(name, &[n]).expect("exported");
    assert_eq!(call("sum", 100), Ok(5050));
    assert_eq!(call("indirect", 77), Ok(77));
    assert_eq!(call("element", 1), Ok(b'i'.into()));
    assert_eq!(call("element", 3), Ok(b'\n'.into()));
    assert_eq!(call("element", 4), Err(Trap::Unreachable));
    assert_eq!(call("element", u64::MAX), Err(Trap::Unreachable));
    assert_eq!(call("sum", 3), Ok(6));
}

#[test]
fn a_module_printed_and_assembled_is_the_same_module() {
    let file = made();
    let module = Module::parse(&file).expect("a module");
    let text = print(&module).expect("it has text");
    let again = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(link(&again).expect("it is linked"), file, "{text}");
    assert!(!text.contains("bytes "), "all has text: {text}");
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    for (text, line, says) in [
        ("heap x", 1, "no number"),
        ("\n\nclass recor(int)", 3, "neither record nor array"),
        ("ret", 1, "nor in a function"),
        ("fn f(): int\n  movv rax, rax", 2, "no instruction"),
        ("fn f(): int\n  mov rax, [rax]", 2, "no operand"),
        ("fn f(): int\n  mov rax, dword [rax]", 2, "does not take"),
        ("fn f(): int\n  mov rax, qword [eax]", 2, "8 bytes"),
        (
            "fn f(): int\n  jmp a\nfn g(): int\na:\n ret",
            2,
            "no label a",
        ),
        ("fn f(): int\na:\na:", 3, "twice"),
        ("fn f(): int\n  call g", 2, "no function g"),
        ("fn f(int: int", 1, "missing"),
        ("text \"a", 1, "without its end"),
        ("fn f(): int\na: 1 [rsp+8 int]", 2, "fewer words"),
        ("fn f(): int\n ret 4 4", 2, "missing"),
    ] {
        let error = parse(text).expect_err(text);
        assert_eq!(error.line, line, "{text}: {error}");
        assert!(error.to_string().contains(says), "{text}: {error}");
    }
    let import = parse("import nothing").expect("it is read");
    let error = link(&import).expect_err("it has no type");
    assert!(error.to_string().contains("nothing"), "{error}");
}

#[test]
fn what_was_never_set_is_no_object_no_function_and_no_descriptor() {
    if let Some(what) = tane_checked_run::lacks() {
        return tane_test_support::skip(what);
    }
    let source = |field: &str, then: &str| {
        format!(
            "heap 4096
import close
class record({field})
class array(#3)
signature (#3): int
slot other
fn other(#3): int
    xor eax, eax
    ret
export fn work(): int
    call .reset
    mov eax, 16
    call .new
    mov qword [rax], 3
    mov rdi, rax
    mov rbx, qword [rax+8]
{then}
    ret
"
        )
    };
    for (field, then, trap) in [
        ("#3", "mov rax, qword [rbx+8]", Trap::Memory),
        ("#3", "mov rax, qword [rbx]", Trap::Memory),
        (
            "#3",
            "mov qword [rbx+8], rdi\n    xor eax, eax",
            Trap::Memory,
        ),
        ("#4", "mov rax, qword [rbx+8]", Trap::Memory),
        ("#1", "mov rax, qword [rbx+8]", Trap::Memory),
        ("fn0", "callslot rbx", Trap::Call),
    ] {
        let program = parse(&source(field, then)).unwrap_or_else(|e| panic!("{e}"));
        let file = link(&program).expect("it is linked");
        check(&file).unwrap_or_else(|e| panic!("{e}: {then}"));
        let close: Import = Box::new(|_, _| 0);
        let mut instance = Instance::new(&file, 4096, vec![("close", close)]).expect("an instance");
        assert_eq!(
            instance.call("work", &[]).expect("exported"),
            Err(trap),
            "{then}"
        );
    }
    let program = parse(&source("fd", "mov rdi, rbx\n    call .close")).expect("it is read");
    let file = link(&program).expect("it is linked");
    let close: Import = Box::new(|arguments, _| arguments[0]);
    let mut instance = Instance::new(&file, 4096, vec![("close", close)]).expect("an instance");
    let result = instance.call("work", &[]).expect("exported");
    assert_eq!(result, Ok(u64::MAX), "-1 is nobody's descriptor");
}
