//! How an image is opened is described once, in `tane::ImageOptions`; the descriptions that
//! other languages have of it are compared with that, field by field, by their text.

use std::path::Path;

/// Each field of `tane::ImageOptions`, and what it is called in tane.h, Python and Go.
const FIELDS: [[&str; 4]; 9] = [
    ["write", "flags", "mode", "Write"],
    ["format", "format", "format", "Format"],
    ["overlay", "overlay", "overlay", "Overlay"],
    ["trust", "trust", "trust", "Trust"],
    ["with", "with", "with_images", "With"],
    ["lower", "lower", "lower", "Lower"],
    ["secrets", "secrets", "passphrase", "Secrets"],
    ["verity", "verity", "verity", "Verity"],
    ["sector_size", "sector_size", "sector_size", "SectorSize"],
];

/// What the structure of C has beside them: of C's own, what is told, and the worker.
const OF_C: [&str; 5] = ["size", "secret_count", "notice", "notice_arg", "worker"];
/// What Go's has: who is told, the kernel, and the process that it runs in.
const OF_GO: [&str; 6] = [
    "Notice",
    "Kernel",
    "NoJail",
    "MemoryLimit",
    "TimeLimit",
    "Context",
];

fn read(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// What stands between these two, without comments of either style.
fn body(file: &str, begin: &str, end: &str) -> String {
    let text = read(file);
    let (_, rest) = text
        .split_once(begin)
        .unwrap_or_else(|| panic!("{file}: {begin}"));
    let (body, _) = rest
        .split_once(end)
        .unwrap_or_else(|| panic!("{file}: {end}"));
    let code = body.split("*/").filter_map(|part| part.split("/*").next());
    let code: String = code.collect();
    let lines = code
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// The last word of a text; an array's length does not count.
fn last_word(text: &str) -> &str {
    let text = text.split('[').next().unwrap_or_default().trim_end();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.rsplit(|c| !is_word(c)).next().unwrap_or_default()
}

fn sorted<T: Ord>(names: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut names: Vec<_> = names.into_iter().collect();
    names.sort();
    names
}

/// Each field of `tane_make::Spec`, and what it is called in tane.h and Go.
const OF_SPEC: [[&str; 3]; 17] = [
    // Arguments of their own.
    ["source", "", ""],
    ["image", "", ""],
    ["layer", "layers", "Layers"],
    ["reference", "reference", "Reference"],
    ["size", "image_size", "Size"],
    ["label", "label", "Label"],
    ["uuid", "uuid", "UUID"],
    ["partition_table", "partition_table", "PartitionTable"],
    ["compression", "compression", "Compression"],
    ["owner", "owner", "Owner"],
    ["metadata", "metadata", "Metadata"],
    ["xattrs", "xattrs", "Xattrs"],
    ["selinux", "selinux", "SELinux"],
    ["epoch", "epoch", "Epoch"],
    ["all_times", "flags", "AllTimes"],
    ["sector_size", "sector_size", "SectorSize"],
    ["options", "options", "Options"],
];
/// What the structure of C has beside them: of C's own, what is told, the kind.
const OF_MAKE: [&str; 7] = ["size", "fs", "format", "progress", "loss", "failure", "arg"];
/// What Go's has: of C's flags, the kind, and who is told.
const OF_GO_MAKE: [&str; 6] = ["FS", "Format", "Force", "Strict", "Progress", "Context"];

fn of_rust(file: &str, begin: &str) -> Vec<String> {
    let body = body(file, begin, "\n}");
    let fields = body
        .lines()
        .filter_map(|line| line.trim().strip_prefix("pub "));
    let names = fields.filter_map(|field| field.split(':').next());
    names.map(str::to_owned).collect()
}

fn of_c(structure: &str) -> Vec<String> {
    let begin = format!("struct {structure} {{");
    let body = body("capi/include/tane.h", &begin, "\n};");
    let fields = body.split(';').filter(|field| !field.trim().is_empty());
    // A function's name stands in parentheses, before its arguments.
    let names = fields.map(|field| match field.split_once("(*") {
        Some((_, rest)) => rest.split(')').next().unwrap_or_default(),
        None => last_word(field),
    });
    names.map(str::to_owned).collect()
}

#[test]
fn c_python_and_go_have_every_option_of_an_image_and_no_other() {
    let column = |of: usize| FIELDS.iter().map(move |names| names[of].to_owned());
    let rust = of_rust("tane/src/image/options.rs", "pub struct ImageOptions {");
    assert_eq!(rust, column(0).collect::<Vec<_>>());
    let own = OF_C.map(str::to_owned);
    assert_eq!(
        sorted(of_c("tane_image_options")),
        sorted(column(1).chain(own))
    );

    let python = read("python/tane/_options.py");
    let (_, body) = python.split_once("class ImageOptions(").expect("the class");
    let body = body.split("\n\n\n").next().expect("its end");
    let fields = body.lines().filter_map(|line| line.strip_prefix("    "));
    let names = fields.filter_map(|line| Some(line.split_once(": ")?.0));
    let names = names.filter(|name| name.chars().all(|c| c.is_ascii_lowercase() || c == '_'));
    let mode = ["mode".to_owned()];
    assert_eq!(
        sorted(names.map(str::to_owned).chain(mode)),
        sorted(column(2))
    );

    let go = crate::body("go/image.go", "type Options struct {", "\n}");
    let own = OF_GO.map(str::to_owned);
    assert_eq!(sorted(of_go(&go)), sorted(column(3).chain(own)));
}

/// The fields in the body of a structure.
fn of_go(body: &str) -> impl Iterator<Item = String> + '_ {
    let names = body
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    names.map(str::to_owned)
}

/// The compiler knows their types; this knows that they are in the same order.
#[test]
fn the_library_reads_the_structure_of_the_header() {
    for (file, ours, structure) in [
        ("image", "RawImageOptions", "tane_image_options"),
        ("make", "RawMakeOptions", "tane_make_options"),
        ("make", "RawMade", "tane_made"),
        (
            "instance/mod",
            "RawInstanceOptions",
            "tane_instance_options",
        ),
        ("instance/imports", "RawImport", "tane_import"),
        ("instance/end", "RawPlace", "tane_place"),
        (
            "host_mount",
            "RawHostMountOptions",
            "tane_host_mount_options",
        ),
        ("net", "RawNicOptions", "tane_nic_options"),
        ("net", "RawUserNetwork", "tane_user_network"),
        ("mptcp", "RawEndpoint", "tane_mptcp_endpoint"),
        ("mptcp", "RawInfo", "tane_mptcp_info"),
        ("mptcp", "RawPath", "tane_mptcp_path"),
    ] {
        let (file, begin) = (
            format!("capi/src/{file}.rs"),
            format!("pub struct {ours} {{"),
        );
        let body = body(&file, &begin, "\n}");
        let fields = body.lines().filter_map(|line| line.split_once(':'));
        let names: Vec<_> = fields.map(|(name, _)| name.trim().to_owned()).collect();
        assert_eq!(names, of_c(structure), "{structure}");
    }
}

/// What an instance is given, and what it is called in tane.h, Python and Go.
const OF_INSTANCE: [[&str; 3]; 6] = [
    ["kernel", "kernel", "Kernel"],
    ["directory", "directory", "Directory"],
    ["calls", "calls", "Calls"],
    ["imports", "imports", "Imports"],
    ["memory", "memory", "Memory"],
    ["milliseconds", "time_limit", "TimeLimit"],
];

#[test]
fn c_python_and_go_give_an_instance_the_same() {
    let column = |of: usize| OF_INSTANCE.iter().map(move |names| names[of].to_owned());
    // Of C's own.
    let own = ["size", "import_count"].map(str::to_owned);
    let c = of_c("tane_instance_options");
    assert_eq!(sorted(c), sorted(column(0).chain(own)));

    let python = body("python/tane/_module.py", "    def instance(", ") ->");
    let names = python.lines().filter_map(|line| line.split_once(':'));
    let names = names.map(|(name, _)| name.trim().to_owned());
    // Kernel and directory of a mount.
    let own = ["mount".to_owned()];
    assert_eq!(sorted(names), sorted(column(1).chain(own)));

    let go = body("go/module.go", "type InstanceOptions struct {", "\n}");
    let names = go.lines().filter_map(|line| line.split_whitespace().next());
    let own = ["FS".to_owned()];
    assert_eq!(
        sorted(names.map(str::to_owned)),
        sorted(column(2).chain(own))
    );
}

#[test]
fn c_and_go_have_every_option_of_an_image_that_is_made_and_no_other() {
    let column = |of: usize| OF_SPEC.iter().map(move |names| names[of].to_owned());
    let rust = of_rust("make/src/gather.rs", "pub struct Spec {");
    assert_eq!(sorted(rust), sorted(column(0)));
    let own = OF_MAKE.map(str::to_owned);
    let theirs = column(1).filter(|name| !name.is_empty());
    assert_eq!(sorted(of_c("tane_make_options")), sorted(theirs.chain(own)));
    let go = body("go/make.go", "type MakeOptions struct {", "\n}");
    let own = OF_GO_MAKE.map(str::to_owned);
    let theirs = column(2).filter(|name| !name.is_empty());
    assert_eq!(sorted(of_go(&go)), sorted(theirs.chain(own)));
}
