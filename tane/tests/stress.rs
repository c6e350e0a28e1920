//! Threads do to an ext4 what programs do to file systems, at random, on several
//! virtual CPUs that come and go, and each knows what must come of it. Every some
//! seconds the kernel ends, after unmounting or in the middle of everything, and
//! e2fsck and a fresh kernel look at what is there.
//!
//! `TANE_STRESS_SECONDS` says how long, 180 unless told, the same with each image of
//! `TANE_STRESS_IMAGES`, which are "default smp" unless told; `TANE_STRESS_FIRST` with
//! which kind of file system it begins, 0 unless told; `TANE_STRESS_SEED` what the
//! numbers start from. How threads meet is not repeated by a seed.

mod inside;
mod medium;
mod stressed;

use inside::{complaints, only_torture};
use medium::{Medium, Random};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use stressed::model::Model;
use stressed::shared::{has_ended, Shared, Visitor};
use stressed::watch::{doing, hotplug, stalls, Doing, Tally};
use stressed::{own, shared};
use tane::{Kernel, Mount};

const IMAGES: &str = "default smp";
const THREADS: usize = 6;
const ROUND: Duration = Duration::from_secs(8);
/// Deeds after which a host thread gives way to a new one.
const SHIFT: u64 = 300;
/// So often a file system is a fresh one.
const ROUNDS_OF_A_FILE_SYSTEM: u64 = 12;
const FILE_SYSTEMS: [&str; 4] = [
    "-t ext4 -b 4096",
    "-t ext4 -b 1024",
    // Not inline_data: ext4 loses what was written to such a file by mmap(2), the
    // host's Linux 6.18 as well as ours.
    "-t ext4 -b 4096 -O ^dir_index -I 128",
    "-t ext4 -b 2048 -J size=4",
];

fn from_environment(name: &str, default: u64) -> u64 {
    let value = std::env::var(name).ok();
    value.map_or(default, |text| text.parse().expect(name))
}

fn builder(image: &str) -> Option<tane::Builder> {
    // Its tortures would turn the kernel off.
    Some(inside::builder(image)?.cmdline(&only_torture("")))
}

/// Whether lockdep still looks on, by /proc/lockdep_stats: after a first finding, and
/// where its tables are full, it does not.
fn is_watching(stats: &str) -> bool {
    let words = stats.lines().filter_map(|line| line.split_once(':'));
    let mut switch = words.filter(|(name, _)| name.trim() == "debug_locks");
    switch.next().is_some_and(|(_, value)| value.trim() == "1")
}

/// All a round needs.
struct Round<'a> {
    kernel: &'a Kernel,
    mount: &'a Mount,
    shared: &'a Shared,
    stop: &'a AtomicBool,
}

impl Round<'_> {
    /// One thread's work, by host threads that follow one another.
    fn work(&self, me: usize, model: &mut Model, random: &mut Random, doing: &Doing) -> Tally {
        let mut tally = Tally::default();
        while !self.stop.load(Ordering::Relaxed) && self.kernel.is_alive() {
            let shift = std::thread::scope(|scope| {
                let shift = || self.shift(me, model, random, doing);
                scope.spawn(shift).join()
            });
            match shift {
                Ok(done) => tally.add(done),
                Err(panic) => {
                    self.stop.store(true, Ordering::Relaxed);
                    std::panic::resume_unwind(panic);
                }
            }
        }
        *doing.lock().expect("not poisoned") = ("nothing", Instant::now());
        tally
    }

    fn shift(&self, me: usize, model: &mut Model, random: &mut Random, doing: &Doing) -> Tally {
        let mut tally = Tally::default();
        for _ in 0..SHIFT {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            let kind = random.below((own::DEEDS.len() + shared::DEEDS.len()) as u64) as usize;
            let begin = |deed| *doing.lock().expect("not poisoned") = (deed, Instant::now());
            let (deed, done) = match own::DEEDS.get(kind) {
                Some((deed, act)) => {
                    begin(deed);
                    let mount = self.mount;
                    let mut own = own::Own {
                        mount,
                        model,
                        random,
                    };
                    (*deed, act(&mut own))
                }
                None => {
                    let (deed, act) = shared::DEEDS[kind - own::DEEDS.len()];
                    begin(deed);
                    let (mount, shared) = (self.mount, self.shared);
                    let mut visitor = Visitor {
                        mount,
                        random,
                        shared,
                        me,
                    };
                    (deed, act(&mut visitor))
                }
            };
            match done {
                Ok(true) => tally.count(deed),
                Ok(false) => {}
                Err(error) if has_ended(&error) => break,
                Err(error) => panic!("thread {me}, {deed}: {error}"),
            }
        }
        tally
    }
}

/// How a round ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Unmount,
    /// In the middle of everything.
    Halt,
}

struct Stress<'a> {
    image: &'a str,
    medium: Medium,
    models: Vec<Model>,
    random: Random,
    tally: Tally,
}

impl<'a> Stress<'a> {
    fn fresh(image: &'a str, random: Random, file_system: &str, tally: Tally) -> Stress<'a> {
        let models = (0..THREADS).map(|me| Model::new(&format!("t{me}")));
        Stress {
            image,
            medium: Medium::mke2fs(512, file_system),
            models: models.collect(),
            random,
            tally,
        }
    }

    /// Returns what could not be as it is.
    fn round(&mut self, cpus: u32, end: End) -> Option<()> {
        let kernel = builder(self.image)?.cpus(cpus).boot().expect("boots");
        let mount = self.medium.mount(&kernel).expect("mounts");
        for model in &mut self.models {
            if !mount.exists(&model.root).expect("looks") {
                mount.create_dir(&model.root).expect("a root");
            }
        }
        let shared = Shared::new(&mount, THREADS).expect("a shared directory");
        mount.sync().expect("syncs");
        let (stop, done) = (AtomicBool::new(false), AtomicBool::new(false));
        let doings: Vec<_> = (0..=THREADS).map(|_| doing()).collect();
        let seeds: Vec<_> = (0..=THREADS).map(|_| self.random.next()).collect();
        let round = Round {
            kernel: &kernel,
            mount: &mount,
            shared: &shared,
            stop: &stop,
        };
        let (models, tally) = (&mut self.models, &mut self.tally);
        std::thread::scope(|scope| {
            scope.spawn(|| stalls(&doings, &done, &format!("{cpus} CPUs, {end:?}")));
            let workers: Vec<_> = models
                .iter_mut()
                .enumerate()
                .map(|(me, model)| {
                    let (round, doing, seed) = (&round, &doings[me], seeds[me]);
                    scope.spawn(move || round.work(me, model, &mut Random(seed), doing))
                })
                .collect();
            let begin = |deed| *doings[THREADS].lock().unwrap() = (deed, Instant::now());
            let plugger =
                scope.spawn(|| hotplug(&kernel, cpus, &mut Random(seeds[THREADS]), &stop));
            let over = Instant::now() + ROUND;
            while Instant::now() < over && !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(5));
            }
            if end == End::Halt {
                begin("halt");
                kernel.halt();
            }
            stop.store(true, Ordering::Relaxed);
            begin("the end of all threads");
            let ended: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
            let gone = plugger.join();
            begin("nothing");
            done.store(true, Ordering::Relaxed);
            for ended in ended {
                match ended {
                    Ok(done) => tally.add(done),
                    Err(_) => panic!("a thread failed; the kernel said\n{}", kernel.dmesg()),
                }
            }
            for _ in 0..gone.expect("CPUs come and go") {
                tally.count("(CPU gone)");
            }
        });
        let log = kernel.dmesg();
        assert_eq!(complaints(&log), [""; 0], "{log}");
        if self.image == "torture" && end == End::Unmount {
            let proc = kernel.tree("/proc").expect("/proc");
            let lockdep = proc.read_to_string("lockdep_stats").expect("lockdep");
            assert!(is_watching(&lockdep), "lockdep gave up: {lockdep}\n{log}");
        }
        if end == End::Unmount {
            mount.unmount().expect("unmounts");
        }
        drop(kernel);
        self.look(&shared, end);
        Some(())
    }

    /// A fresh kernel finds what was done, or at least what was synced.
    fn look(&mut self, shared: &Shared, end: End) {
        if end == End::Unmount {
            assert_eq!(self.medium.fault(), None, "e2fsck after unmounting");
        }
        let kernel = builder(self.image).expect("an image").boot();
        let kernel = kernel.expect("boots");
        let mount = self.medium.mount(&kernel).expect("mounts again");
        let only_kept = end == End::Halt;
        for model in &mut self.models {
            match model.compare(&mount, only_kept) {
                Ok(compared) => {
                    for _ in 0..compared {
                        self.tally.count("(name compared)");
                    }
                }
                Err(error) => panic!("after {end:?}: {error}"),
            }
            if end == End::Halt {
                model.adopt(&mount);
            }
            model.keep_all();
        }
        let log = shared.compare(&mount, only_kept);
        log.unwrap_or_else(|error| panic!("after {end:?}: the shared log: {error}"));
        let log = kernel.dmesg();
        assert_eq!(complaints(&log), [""; 0], "{log}");
        mount.unmount().expect("unmounts");
        drop(kernel);
        assert_eq!(self.medium.fault(), None, "e2fsck after {end:?}");
        self.tally.count(match end {
            End::Unmount => "(round that unmounted)",
            End::Halt => "(round that halted)",
        });
    }
}

/// As long, and once through all kinds of rounds; `first` is which kind of file
/// system comes first. None without an image.
fn stress(image: &str, seconds: u64, first: usize, random: Random) -> Option<()> {
    let start = Instant::now();
    let over = start + Duration::from_secs(seconds);
    let kind = |n: u64| {
        FILE_SYSTEMS[(first + (n / ROUNDS_OF_A_FILE_SYSTEM) as usize) % FILE_SYSTEMS.len()]
    };
    let said = |stress: &Stress| {
        let (took, tally) = (start.elapsed(), &stress.tally);
        let (all, text) = (tally.all(), tally.text());
        println!("stress: {image}, {took:.0?}: {all} deeds: {text}");
    };
    let mut stress = Stress::fresh(image, random, kind(0), Tally::default());
    for n in 0.. {
        // All kinds of rounds are done, however short the time is.
        if n >= 6 && Instant::now() > over {
            break;
        }
        if n != 0 && n % ROUNDS_OF_A_FILE_SYSTEM == 0 {
            let Stress { random, tally, .. } = stress;
            stress = Stress::fresh(image, random, kind(n), tally);
        }
        let cpus = [1, 2, 4][n as usize % 3];
        let end = [End::Unmount, End::Halt][n as usize % 2];
        if seconds > 150 {
            println!("stress: round {n}, {}, {cpus} CPUs, {end:?}", kind(n));
        }
        stress.round(cpus, end)?;
        if seconds > 150 && n % 15 == 0 {
            said(&stress);
        }
    }
    said(&stress);
    let deeds = own::DEEDS.iter().map(|(deed, _)| deed);
    for deed in deeds.chain(shared::DEEDS.iter().map(|(deed, _)| deed)) {
        assert!(stress.tally.of(deed) > 0, "{image}: nothing of {deed}");
    }
    Some(())
}

#[test]
fn random_work_on_an_ext4_comes_out_as_it_must() {
    let seconds = from_environment("TANE_STRESS_SECONDS", 180);
    let now = std::time::SystemTime::UNIX_EPOCH
        .elapsed()
        .expect("a clock");
    let seed = from_environment("TANE_STRESS_SEED", now.as_nanos() as u64);
    println!("stress: {seconds} seconds, TANE_STRESS_SEED={seed}");
    let first = from_environment("TANE_STRESS_FIRST", 0) as usize;
    let images = std::env::var("TANE_STRESS_IMAGES").unwrap_or_else(|_| IMAGES.into());
    let images: Vec<_> = images.split([' ', ',']).collect();
    for (n, image) in images.iter().enumerate() {
        let share = seconds / images.len() as u64;
        if stress(image, share, first + n, Random(seed + n as u64)).is_none() {
            return;
        }
    }
}

/// Two rounds of it; hours of them are `TANE_STRESS_IMAGES=torture`.
#[test]
fn no_locks_are_taken_in_an_order_that_can_deadlock_under_random_work() {
    let file_system = FILE_SYSTEMS[0];
    let mut stress = Stress::fresh("torture", Random(1), file_system, Tally::default());
    for (cpus, end) in [(2, End::Halt), (4, End::Unmount)] {
        if stress.round(cpus, end).is_none() {
            return;
        }
    }
    let tally = &stress.tally;
    println!("stress: torture: {} deeds: {}", tally.all(), tally.text());
    assert!(tally.all() > 100, "{}", tally.text());
    assert!(tally.of("(CPU gone)") > 0, "no CPU came or went");
}
