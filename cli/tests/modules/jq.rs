//! jq as a module: Debian's source, which has a suite of its own.

use crate::common::*;
use crate::libc::{musl, sources};
use std::path::Path;
use std::process::Command;

/// All but what Debian makes of jq with a library for regular expressions.
const FILES: [&str; 19] = [
    "builtin",
    "bytecode",
    "compile",
    "execute",
    "jq_test",
    "jv",
    "jv_alloc",
    "jv_aux",
    "jv_dtoa",
    "jv_file",
    "jv_parse",
    "jv_print",
    "jv_unicode",
    "lexer",
    "linker",
    "locfile",
    "main",
    "parser",
    "util",
];

/// What its `configure` would find in musl, beside functions of mathematics.
const FOUND: [&str; 13] = [
    "IEEE_8087",
    "HAVE_GETTIMEOFDAY",
    "HAVE_GMTIME",
    "HAVE_GMTIME_R",
    "HAVE_ISATTY",
    "HAVE_LGAMMA_R",
    "HAVE_LOCALTIME",
    "HAVE_LOCALTIME_R",
    "HAVE_MEMMEM",
    "HAVE_MKTIME",
    "HAVE_STRFTIME",
    "HAVE_STRPTIME",
    "HAVE_TIMEGM",
];

/// What jq's Makefile makes before it compiles; and a tree for its suite.
fn prepare(s: &Scratch, source: &Path) {
    let lines = std::fs::read_to_string(source.join("src/builtin.jq")).expect("jq's own functions");
    let quoted = lines.lines().map(|line| {
        let line = line.replace('\\', "\\\\").replace('"', "\\\"");
        format!("\"{line}\\n\"\n")
    });
    std::fs::create_dir(s.join("src")).expect("a directory");
    s.write("src/builtin.inc", quoted.collect::<String>().as_bytes());
    s.write("src/version.h", b"#define JQ_VERSION \"of a module\"\n");
    succeed(
        s.tool("cp")
            .args(["-r"])
            .arg(source.join("tests"))
            .arg(s.join("tree")),
    );
}

/// Functions of mathematics that a system may have; musl has all but the one of two meanings.
fn mathematics(source: &Path) -> Vec<String> {
    let list = std::fs::read_to_string(source.join("src/libm.h")).expect("a list of functions");
    let words = list.split_whitespace();
    let named = words.filter(|word| word.starts_with("HAVE_") && *word != "HAVE_GAMMA");
    named.map(|name| format!("-D{name}")).collect()
}

fn build(s: &Scratch, musl: &Path, source: &Path) {
    prepare(s, source);
    let files = FILES.map(|name| source.join(format!("src/{name}.c")));
    let found = FOUND.iter().map(|name| format!("-D{name}"));
    let mut build = s.tane();
    build.args(["build", "-o", "jq.tmod", "--libc"]).arg(musl);
    build.args(["-D_GNU_SOURCE", "-DHAVE_TM_TM_GMT_OFF", "-I."]);
    build.args(found).args(mathematics(source)).args(&files);
    succeed(&mut build);
}

/// The module, with the suite's files for a root.
fn jq(s: &Scratch) -> Command {
    let mut tane = s.tane();
    tane.args(["run-module", "--root", "tree", "--", "jq.tmod"]);
    tane
}

#[test]
fn jq_passes_its_own_suite_and_says_what_it_says_on_the_host() {
    let (Some(musl), Some(source)) = (musl(), sources("jq")) else {
        return;
    };
    let s = Scratch::new();
    build(&s, musl, &source);
    for suite in ["jq.test", "base64.test"] {
        let words = ["-L", "modules", "--run-tests", suite];
        let said = text(&succeed(jq(&s).args(words)).stdout);
        let end = said.lines().last().unwrap_or_default();
        let passed = end.split(' ').next().and_then(|n| n.parse::<u32>().ok());
        let all = format!("{0} of {0} tests passed (0 malformed)", passed.unwrap_or(0));
        assert!(passed > Some(5) && end == all, "{suite}: {said}");
    }
    let program = "[.[] | select(.a > 2) | {b, c: (.a * 1.5 | tostring)}] | sort_by(.b), length";
    s.write(
        "tree/input",
        br#"[{"a":1,"b":"x"},{"a":3,"b":"\u00fc"},{"a":1e3,"b":null}]"#,
    );
    let host = succeed(s.tool("jq").args([program]).arg(s.join("tree/input")));
    let module = succeed(jq(&s).args([program, "input"]));
    assert_eq!(text(&module.stdout), text(&host.stdout));
}
