//! Modules put together by hand, byte by byte.

use tane_checked::{check, Export, Layout, Module, Rule};

/// A module of this code; one export at its start, two slots in its table (its start,
/// and an import), 16 bytes of read-only data and 16 of data.
pub fn around(code: &[u8]) -> Module<'_> {
    Module {
        code,
        table: vec![0, tane_checked::IMPORT],
        read_only: &[1; 16],
        data: &[2; 16],
        zeroes: 0,
        imports: vec!["other"],
        exports: vec![Export {
            name: "main",
            at: 0,
        }],
        heights: Vec::new(),
        types: None,
        layout: Layout::new(code.len() as u64, 2, 16, 16).expect("it is small"),
    }
}

/// The rule that a module breaks, and where.
pub fn refused(module: &Module<'_>) -> Option<(Rule, Option<u32>)> {
    let refusal = check(&module.to_bytes()).err()?;
    assert!(!refusal.what.is_empty() && !refusal.rule.remedy().is_empty());
    Some((refusal.rule, refusal.at))
}

/// Code that `attack` refuses for the rule at its first byte that `at` says, while its
/// twin, which differs in nothing else, is accepted.
pub fn twins(rule: Rule, at: u32, attack: &[u8], twin: &[u8]) {
    assert_eq!(refused(&around(twin)), None, "the twin {twin:02x?}");
    assert_eq!(
        refused(&around(attack)),
        Some((rule, Some(at))),
        "{attack:02x?}"
    );
}

/// The same for one instruction that control leaves by its end.
pub fn one(rule: Rule, attack: &[u8], twin: &[u8]) {
    let with_ret = |code: &[u8]| [code, &[0xc3]].concat();
    twins(rule, 0, &with_ret(attack), &with_ret(twin));
}
