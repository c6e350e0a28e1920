//! Promises of `tane kernel`, by what Kconfig wrote and what binutils say of the images.

use crate::common::{exit, succeed, text, Scratch};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The image lab, whose directory has the others that were built.
fn lab() -> Option<PathBuf> {
    tane_test_support::image("lab")
}

fn kernel(s: &Scratch, lab: &Path, words: &[&str]) -> Command {
    let mut command = s.tane();
    command.env("TANE_IMAGE", lab).arg("kernel").args(words);
    command
}

fn lines(output: &std::process::Output) -> Vec<String> {
    text(&output.stdout).lines().map(str::to_owned).collect()
}

fn objects(output: &std::process::Output) -> Vec<Value> {
    let lines = lines(output);
    let object = |line: &String| serde_json::from_str(line).expect("JSON");
    lines.iter().map(object).collect()
}

/// Two of the images in a directory of their own: the image debug tests itself for a minute
/// whenever it boots.
fn images(s: &Scratch) -> Option<PathBuf> {
    for name in ["tiny", "lab"] {
        let image = tane_test_support::image(name)?;
        for extension in ["elf", "config", "sizes", "manifest"] {
            let to = s.join(&format!("tane-{name}.{extension}"));
            std::os::unix::fs::symlink(image.with_extension(extension), to).expect("links");
        }
    }
    Some(s.join("tane-lab.elf"))
}

#[test]
fn all_images_are_listed_with_what_they_take() {
    let s = Scratch::new();
    let Some(lab) = images(&s) else { return };
    let output = succeed(&mut kernel(&s, &lab, &["list", "--times", "1", "--json"]));
    let rows = objects(&output);
    let directory = std::fs::read_dir(lab.parent().expect("a directory")).expect("reads");
    let images = directory.flatten().filter(|e| {
        let name = e.file_name().to_string_lossy().into_owned();
        name.starts_with("tane-") && name.ends_with(".elf")
    });
    let listed: Vec<&Value> = rows.iter().filter(|row| row["image"].is_string()).collect();
    assert_eq!(listed.len(), images.count());
    for row in listed {
        let path = Path::new(row["path"].as_str().expect("a path"));
        let bytes = std::fs::metadata(path).expect("is there").len();
        assert_eq!(row["bytes"], bytes);
        assert!(row["boot_ms"].as_f64().expect("a time") > 0.0, "{row}");
        assert!(row["resident"].as_u64().expect("bytes") > 1 << 20, "{row}");
        let config = std::fs::read_to_string(path.with_extension("config")).expect("is there");
        let set = config.lines().filter(|line| line.ends_with("=y")).count();
        assert_eq!(row["options"], set);
    }
    // Beside what others publish.
    assert!(rows.iter().any(|row| row["published"] == "linuxkit"));
    let shown = lines(&succeed(&mut kernel(&s, &lab, &["list", "--times", "1"])));
    assert_eq!(shown.len(), rows.len() + 1);
    assert!(
        shown.iter().any(|line| line.starts_with("lab ")),
        "{shown:?}"
    );
}

#[test]
fn an_image_tells_the_options_that_kconfig_gave_it() {
    let Some(lab) = lab() else { return };
    let s = Scratch::new();
    let config = std::fs::read_to_string(lab.with_extension("config")).expect("is there");
    let mut known: Vec<&str> = config
        .lines()
        .filter(|line| line.starts_with("CONFIG_") || line.ends_with(" is not set"))
        .collect();
    let output = succeed(&mut kernel(&s, &lab, &["config", "lab"]));
    let mut told = lines(&output);
    known.sort_unstable();
    told.sort_unstable();
    assert_eq!(told, known);

    let path = lab.to_str().expect("text");
    let words = ["config", path, "KPROBES", "CONFIG_NET", "NR_CPUS"];
    let output = succeed(&mut kernel(&s, &lab, &words));
    let some = [
        "CONFIG_KPROBES=y",
        "# CONFIG_NET is not set",
        "CONFIG_NR_CPUS=8",
    ];
    let mut told = lines(&output);
    told.sort();
    let mut some = some.map(str::to_owned);
    some.sort();
    assert_eq!(told, some);
    let output = succeed(kernel(&s, &lab, &["config", "lab", "KPROBES"]).arg("--json"));
    assert_eq!(objects(&output)[0]["KPROBES"], "y");

    let output = exit(
        &mut kernel(&s, &lab, &["config", "lab", "KPROBS", "SMP"]),
        1,
    );
    assert_eq!(lines(&output), ["CONFIG_SMP=y"]);
    let error = text(&output.stderr);
    assert!(
        error.contains("KPROBS") && error.contains("misspelt"),
        "{error}"
    );
}

#[test]
fn two_images_differ_where_their_options_do() {
    let Some(lab) = lab() else { return };
    let s = Scratch::new();
    let same = succeed(&mut kernel(&s, &lab, &["diff", "lab", "lab"]));
    assert_eq!(lines(&same), [""; 0]);
    // One that is lab but for one option.
    let other = s.join("tane-other.elf");
    std::fs::copy(&lab, &other).expect("copies");
    let config = std::fs::read_to_string(lab.with_extension("config")).expect("is there");
    let changed = config.replace("CONFIG_KPROBES=y", "# CONFIG_KPROBES is not set");
    assert_ne!(config, changed);
    std::fs::write(other.with_extension("config"), changed).expect("writes");
    let other = other.to_str().expect("text");
    let output = exit(&mut kernel(&s, &lab, &["diff", "lab", other]), 1);
    assert_eq!(lines(&output), ["KPROBES: y -> n"]);
    let output = exit(kernel(&s, &lab, &["diff", other, "lab"]).arg("--json"), 1);
    let told = &objects(&output)[0];
    assert_eq!([&told["first"], &told["second"]], ["n", "y"]);
}

#[test]
fn the_parts_of_an_image_are_what_size_says() {
    let Some(lab) = lab() else { return };
    let s = Scratch::new();
    let output = succeed(kernel(&s, &lab, &["size", "lab"]).arg("--json"));
    let parts = objects(&output);
    let code = |name: &str| {
        let part = parts.iter().find(|part| part["part"] == name);
        part.expect(name)["code"].as_u64().expect("bytes")
    };
    let all: u64 = parts
        .iter()
        .map(|part| part["code"].as_u64().expect("bytes"))
        .sum();
    let output = succeed(Command::new("size").arg(lab.with_extension("debug")));
    let table = lines(&output);
    let whole = table[1].split_whitespace().next().expect("a number");
    let whole: u64 = whole.parse().expect("a number");
    // What is linked from lib.a, and tables that the linker makes, are not of a part.
    assert!(
        all > whole / 2 && all < whole + (1 << 20),
        "{all} of {whole}"
    );
    assert!(code("fs/ext4") > 200_000 && code("kernel/trace") > 100_000);
    assert!(code("fs/ext4") > code("fs/fat"));
}

#[test]
fn what_container_engines_would_miss_is_told() {
    let Some(lab) = lab() else { return };
    let s = Scratch::new();
    let output = exit(kernel(&s, &lab, &["containers", "lab"]).arg("--json"), 1);
    let groups = objects(&output);
    let options = std::fs::read_to_string(lab.with_extension("config")).expect("is there");
    for group in &groups {
        let words = |key: &str| -> Vec<&str> {
            let words = group[key].as_array().expect(key).iter();
            words.map(|word| word.as_str().expect("a name")).collect()
        };
        let missing = words("missing");
        for option in words("options") {
            let set = options
                .lines()
                .any(|line| line == format!("CONFIG_{option}=y"));
            assert_eq!(set, !missing.contains(&option), "{option}");
        }
    }
    assert!(groups
        .iter()
        .any(|group| group["kind"] == "optional" && group["what"] == "ext4"));
    // With all that is needed, and overlayfs, nothing is said to be wrong.
    let image = s.join("tane-whole.elf");
    std::fs::copy(&lab, &image).expect("copies");
    let needed = groups[0]["options"].as_array().expect("options").iter();
    let lines = needed.map(|name| format!("CONFIG_{}=y\n", name.as_str().expect("a name")));
    let whole = lines.collect::<String>() + "CONFIG_OVERLAY_FS=y\n";
    std::fs::write(image.with_extension("config"), whole).expect("writes");
    let path = image.to_str().expect("text");
    let output = succeed(&mut kernel(&s, &lab, &["containers", path]));
    assert!(
        text(&output.stdout).starts_with("needed: all 28\n"),
        "{output:?}"
    );
}

#[test]
fn what_is_not_there_is_named_with_the_remedy() {
    let Some(lab) = lab() else { return };
    let s = Scratch::new();
    let output = exit(&mut kernel(&s, &lab, &["config", "labb"]), 3);
    let error = text(&output.stderr);
    assert!(error.contains("labb") && error.contains("lab"), "{error}");
    let bare = s.join("tane-bare.elf");
    std::fs::write(&bare, "").expect("writes");
    for verb in ["config", "size"] {
        let output = exit(
            &mut kernel(&s, &lab, &[verb, bare.to_str().expect("text")]),
            3,
        );
        let error = text(&output.stderr);
        assert!(error.contains("tane kernel build --base "), "{error}");
    }
    // An image that is none is told, and the others are listed.
    let output = exit(&mut kernel(&s, &bare, &["list", "--times", "1"]), 1);
    assert!(text(&output.stderr).contains("tane-bare.elf"));
    assert!(text(&output.stdout).contains("linuxkit"));
}

#[test]
fn an_installed_image_is_booted_by_its_name_and_others_are_named() {
    let Some(lab) = lab() else { return };
    let s = Scratch::new();
    s.ext4("disk.img", None, 8);
    s.write("hello", b"hello\n");
    let tane = |words: &[&str]| {
        let mut command = s.tane();
        command.env("TANE_IMAGE", &lab).args(words);
        command
    };
    succeed(&mut tane(&["cp", "hello", "disk.img:/"]));
    let version = |kernel: &str| {
        let words = ["--kernel", kernel, "dmesg", "disk.img"];
        text(&succeed(&mut tane(&words)).stdout)
    };
    // Only lab has a tracer.
    assert!(version("lab").contains("ftrace: allocating"));
    assert!(!version("tiny").contains("ftrace: allocating"));
    // A file that is called so is meant with a slash only.
    std::fs::copy(&lab, s.join("tiny")).expect("copies");
    assert!(!version("tiny").contains("ftrace: allocating"));
    assert!(version("./tiny").contains("ftrace: allocating"));

    let words = ["--kernel", "tinny", "cat", "disk.img:/hello"];
    let said = text(&exit(&mut tane(&words), 3).stderr);
    assert!(
        said.contains("tinny: the kernel image that --kernel names"),
        "{said}"
    );
    assert!(said.contains("lab") && said.contains("smp, tiny"), "{said}");
}
