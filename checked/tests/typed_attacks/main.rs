//! An attack on every rule of typed modules, each beside a twin that differs in little and
//! is accepted.
//!
//! ```text
//! declared.rs   T1, T2, T12: what is declared, and what a module begins with
//! memory.rs     T5, T6, T7: fields, elements, what was allocated
//! ways.rs       T3, T4, T8 to T11: values, jumps, calls, returns, words by rsp
//! ```

mod declared;
mod memory;
#[path = "../typed/mod.rs"]
mod typed;
mod ways;

use tane_checked::{State, Type};
use typed::EITHER;

#[test]
fn what_is_known_can_be_told() {
    let mut registers = [Type::Unknown; 16];
    registers[0] = EITHER;
    let mut state = State::new(registers, vec![Type::Descriptor, Type::Int]);
    state.bound(1, 0);
    assert_eq!(
        state.to_string(),
        "rax:#3-4 0(rsp):int 8(rsp):fd rcx<len(rax)"
    );
}
