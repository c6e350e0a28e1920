// SPDX-License-Identifier: GPL-2.0-only
//! `xtask checkpatch`: what is compiled inside Linux reads like Linux.

use std::path::{Path, PathBuf};
use std::process::Command;

use tane_kernel_build::Terminal;

use crate::layout::{self, Layout};
use crate::Result;

/// Findings that do not apply to us, each with the reason.
const IGNORED: &[(&str, &str)] = &[
    (
        "NEW_TYPEDEFS",
        "generic code asks every port for pte_t, cycles_t and their kin",
    ),
    (
        "MACRO_ARG_UNUSED",
        "hooks of generic code that a port may leave empty",
    ),
    (
        "NO_AUTHOR_SIGN_OFF",
        "authorship is in this repository's history",
    ),
    ("MISSING_SIGN_OFF", "the same"),
    (
        "MACRO_ARG_REUSE",
        "accessors of user memory and swap_ex_entry_fixup are macros everywhere",
    ),
    (
        "MACRO_WITH_FLOW_CONTROL",
        "unsafe_get_user() and its kin jump to a label by contract",
    ),
    (
        "COMPLEX_MACRO",
        "LOCK_PREFIX is a piece of assembly, asm goto a statement",
    ),
    (
        "MACRO_ARG_PRECEDENCE",
        "a field's name cannot stand in parentheses",
    ),
    (
        "BIT_MACRO",
        "constants that assembly and linker scripts read too",
    ),
    (
        "DEFINE_ARCH_HAS",
        "ARCH_HAS_RELATIVE_EXTABLE and ARCH_HAS_PREFETCH are what generic code tests",
    ),
    ("CAMELCASE", "the types of <linux/elf.h> are called so"),
    (
        "VOLATILE",
        "fields of a virtual CPU change under the compiler, as hardware's do",
    ),
    (
        "VSPRINTF_SPECIFIER_PX",
        "the log says where the image lies, so that an oops can be mapped back",
    ),
    (
        "ENOSYS",
        "it is the answer to a system call or futex operation",
    ),
    (
        "PRINTK_WITHOUT_KERN_LEVEL",
        "show_stack() gets the level as an argument",
    ),
    ("EMBEDDED_FUNCTION_NAME", "prefetchw is an instruction"),
];

pub fn main(layout: &Layout) -> Result<()> {
    let tree = tane_kernel_build::prepared_source(&layout.kernel, &Terminal::new())?.tree;
    let mut clean = true;
    let mut checked = 0;
    let sources = layout::files_below(&layout.kernel.overlay())?;
    let mut patches = layout::files_below(&layout.kernel.patches())?;
    patches.extend(layout::files_below(&layout.kernel.experiments())?);
    for file in &sources {
        clean &= check(&tree, file, true)?;
        checked += 1;
    }
    for file in patches.iter().filter(|file| is_patch(file)) {
        clean &= check(&tree, file, false)?;
        checked += 1;
    }
    if clean {
        println!("checkpatch: {checked} files are clean");
        return Ok(());
    }
    Err("checkpatch: not clean".to_string())
}

fn is_patch(file: &Path) -> bool {
    file.extension()
        .is_some_and(|extension| extension == "patch")
}

/// One run of the tree's own checker; it prints what it finds.
fn check(tree: &Path, file: &PathBuf, source: bool) -> Result<bool> {
    let ignored: Vec<_> = IGNORED.iter().map(|(kind, _)| *kind).collect();
    let mut command = Command::new("perl");
    command.arg(tree.join("scripts/checkpatch.pl"));
    command.args([
        "--strict",
        "--no-tree",
        "--terse",
        "--show-types",
        "--no-summary",
        "--quiet",
    ]);
    command.arg(format!("--ignore={}", ignored.join(",")));
    if source {
        command.arg("--file");
    }
    let status = command
        .arg(file)
        .env("LC_ALL", "C")
        .status()
        .map_err(|e| format!("perl: {e}"))?;
    Ok(status.success())
}
