//! Verbs that can be looked at in the middle of their work, and which of their processes.

use crate::common::run;

/// A verb in the middle of its work.
pub struct Verb {
    /// Of docs/jail-calls.md.
    pub class: char,
    /// How many filters it has when its last jail has closed.
    pub filters: usize,
    pub words: &'static [&'static str],
    pub who: Who,
}

/// Which of a command's processes.
#[derive(Clone, Copy, PartialEq)]
pub enum Who {
    Itself,
    /// The one that it started and that has filters.
    Child,
    /// That which it started after so many others.
    Nth(usize),
    /// What a child of its started: a program of the host.
    Grandchild,
    /// A child that waits for nobody: it is stopped when it is seen.
    Briefly,
    /// One of several children, one after the other: the one that has a program run.
    Step,
}

pub const fn verb(class: char, filters: usize, words: &'static [&'static str]) -> Verb {
    Verb {
        class,
        filters,
        words,
        who: Who::Itself,
    }
}

/// The first of each class stands for it where attacks are tried.
pub const VERBS: &[Verb] = &[
    verb('L', 2, &["cat", "disk.img:/big"]),
    verb('L', 2, &["ls", "-l", "disk.img:/"]),
    verb('L', 2, &["find", "disk.img:/"]),
    verb('L', 2, &["cat", "9p:/big"]),
    verb('L', 2, &["stat", "disk.img:/big"]),
    verb('L', 2, &["du", "disk.img:/"]),
    verb('L', 2, &["inspect", "disk.img"]),
    verb('L', 2, &["diff", "disk.img:/", "other.img:/tree"]),
    verb('L', 2, &["cat", "disk.img:/big", "other.img:/tree/big"]),
    verb('L', 2, &["tar", "create", "-", "disk.img:/."]),
    verb('L', 2, &["tar", "extract", "-", "written.img:/"]),
    verb('L', 2, &["--json", "trim", "written.img"]),
    Verb {
        who: Who::Briefly,
        ..verb('L', 2, &["edit", "disk.img:/big"])
    },
    RUN,
    verb('U', 2, NETWORKED),
    Verb {
        who: Who::Child,
        ..verb('B', 1, NETWORKED)
    },
    verb('M', 2, &["diff", "disk.img:/", "other"]),
    verb('L', 2, &["--json", "cp", "tree/big", "written.img:/"]),
    Verb {
        who: Who::Child,
        ..verb('K', 1, &["--json", "cp", "tree/big", "written.img:/"])
    },
    verb('C', 2, &["--json", "cp", "disk.img:/big", "out"]),
    Verb {
        who: Who::Child,
        ..verb('G', 1, &["--json", "cp", "--force", "disk.img:/big", "out"])
    },
    Verb {
        who: Who::Nth(0),
        ..verb('F', 1, &["--json", "cp", "disk.img:/big", "there"])
    },
    verb(
        'L',
        2,
        &["--json", "convert", "disk.img", "out/converted.qcow2"],
    ),
    verb('L', 2, &["fsck", "disk.img"]),
    verb('L', 2, &["fsck", "--repair", "disk.img"]),
    verb('L', 2, &["mkfs", "--force", "blank.img"]),
    Verb {
        who: Who::Child,
        ..verb(
            'D',
            1,
            &[
                "--json",
                "cp",
                "--force",
                "--devices",
                "disk.img:/big",
                "out",
            ],
        )
    },
    verb('S', 1, &["sh", "-c", "cat /big", "disk.img"]),
    Verb {
        who: Who::Child,
        ..verb('O', 1, &["sh", "-c", "cat /big", "disk.img"])
    },
    Verb {
        who: Who::Child,
        ..verb('O', 1, &["diff", "disk.img:/", "many"])
    },
    verb(
        'V',
        1,
        &["sh", "--share", "out", "-c", "cat /big", "disk.img"],
    ),
    verb('V', 1, &["sh", "-c", "cat /big; get /big out", "disk.img"]),
    verb('V', 1, SHARING),
    // Its guard, its gofer, its lender, who opens images, who tells.
    Verb {
        who: Who::Nth(1),
        ..verb('W', 1, SHARING)
    },
    Verb {
        who: Who::Nth(0),
        ..verb('F', 1, SHARING)
    },
    Verb {
        who: Who::Nth(4),
        ..verb('O', 1, SHARING)
    },
    verb('A', 1, &["make-image", "tree", "out/made.img"]),
    verb('A', 1, &["make-image", "disk.toml", "out/made.img"]),
    verb('E', 1, &["make-image", "tree.tar", "out/made.img"]),
    verb(
        'E',
        1,
        &["make-image", "--fs=squashfs", "tree.tar", "out/made.img"],
    ),
    verb(
        'E',
        1,
        &["make-image", "--fs=erofs", "tree.tar", "out/made.img"],
    ),
    verb('E', 1, &["make-image", "read.toml", "out/made.img"]),
    verb(
        'A',
        1,
        &["make-image", "--fs=squashfs", "tree", "out/made.img"],
    ),
    verb('P', 1, &["make-image", "oci", "out/made.img"]),
    verb('P', 1, &["make-image", "oci.toml", "out/made.img"]),
    verb('P', 1, &["make-image", "saved", "out/made.img"]),
    verb(
        'P',
        1,
        &["make-image", "tree", "--layer=tree.tar", "out/made.img"],
    ),
    Verb {
        who: Who::Step,
        ..verb('L', 2, &["resize", "written.img", "48M"])
    },
    Verb {
        who: Who::Child,
        ..verb(
            'Z',
            2,
            &[
                "fuzz",
                "fs",
                "ext4",
                "disk.img",
                "--corpus=out/fuzz",
                "--time=1h",
                "--hang=1h",
                "--no-compare",
            ],
        )
    },
    Verb {
        who: Who::Child,
        ..verb('N', 1, &["cat", "http:/big"])
    },
    Verb {
        who: Who::Grandchild,
        ..verb('T', 1, &["fsck", "disk.img"])
    },
    Verb {
        who: Who::Grandchild,
        ..verb(
            'T',
            1,
            &["make-image", "--fs=squashfs", "tree", "out/made.img"],
        )
    },
];

/// A program runs, and waits; where there is something to run it.
pub const RUN: Verb = verb(
    'R',
    2,
    &[
        "run", "--root", "disk.img", "--", "/busybox", "sleep", "100000",
    ],
);

/// The same with a network: it, and who makes the host's sockets.
pub const NETWORKED: &[&str] = &[
    "run",
    "--net",
    "user",
    "--publish",
    "0:80",
    "--root",
    "disk.img",
    "--",
    "/busybox",
    "sleep",
    "100000",
];

/// A session that makes, compares and looks for files of the host.
pub const SHARING: &[&str] = &[
    "sh",
    "--share",
    "out",
    "-c",
    "cat /big; diff /big host:out; tar create out/x.tar /; convert disk.img out/x.img; ls host:out/*",
    "disk.img",
];

/// All that can be started here.
pub fn verbs() -> impl Iterator<Item = &'static Verb> {
    let runs = run::can_run();
    let can = move |verb: &&Verb| runs || !"RUB".contains(verb.class);
    VERBS.iter().filter(can)
}
