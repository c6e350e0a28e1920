//! An attack on every rule, each beside a twin that differs in little and is accepted.
//!
//! ```text
//! container.rs  R1 to R5: the file, and each instruction by itself
//! control.rs    R6 to R11: where control goes, and what is pushed there
//! ```

mod container;
mod control;
#[path = "../module/mod.rs"]
mod module;

use module::{around, refused};
use tane_checked::Rule;

const RET: u8 = 0xc3;

#[test]
fn every_rule_is_attacked_here() {
    let source = concat!(
        include_str!("container.rs"),
        include_str!("control.rs"),
        include_str!("../typed_attacks/declared.rs"),
        include_str!("../typed_attacks/memory.rs"),
        include_str!("../typed_attacks/ways.rs"),
    );
    for rule in Rule::ALL {
        let name = rule.to_string().to_lowercase();
        let attacked = source.contains(&format!("\nfn {name}_"));
        assert!(attacked, "{rule} has no attack");
    }
}

#[test]
fn the_pass_begins_at_the_first_byte_wherever_functions_do() {
    // A syscall before the only function.
    let code = [0x0f, 0x05, RET];
    let mut module = around(&code);
    module.table.clear();
    module.exports[0].at = 2;
    assert_eq!(refused(&module), Some((Rule::Form, Some(0))));
}
