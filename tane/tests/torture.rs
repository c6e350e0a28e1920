//! The kernel's own torture of RCU, of its locks and of calls across CPUs, while
//! CPUs come and go and lockdep looks on: the torture image starts one at boot,
//! which gives its verdict and turns the kernel off. A lock that does not lock
//! and an RCU that does not wait are among them, and must be found out.
//!
//! `TANE_TORTURE_SECONDS` says how long each takes, 2 unless told, and from 30 on
//! eight CPUs are tried too. `TANE_TORTURE_ONLY` picks those whose name has this.

mod inside;

use inside::{builder, complaints, only_torture};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tane_test_support::PATIENCE;

/// Patience with a host that gives its processors to others for long.
const PATIENT: &str = "watchdog_thresh=60 rcupdate.rcu_cpu_stall_timeout=200";

const RCU: &str = "rcutorture.onoff_interval=20 rcutorture.read_exit_delay=1 \
    rcutorture.n_barrier_cbs=2 rcutorture.fwd_progress_holdoff=10 \
    rcutorture.shuffle_interval=1 rcutorture.stutter=1";
// It counts no CPUs that come and go, but tells of each when asked for more words.
const LOCK: &str = "locktorture.onoff_interval=1 locktorture.nested_locks=4 \
    locktorture.verbose=2";
// Its threads must find all CPUs there when they start.
const SCF: &str = "scftorture.onoff_holdoff=1 scftorture.onoff_interval=20 scftorture.holdoff=0";

#[derive(Clone, Copy)]
struct Torture {
    who: &'static str,
    /// Of what: its torture_type; none if there is only one.
    what: &'static str,
}

const fn of(who: &'static str, what: &'static str) -> Torture {
    Torture { who, what }
}

const SOUND: [Torture; 18] = [
    of("rcutorture", "rcu"),
    of("rcutorture", "srcu"),
    of("rcutorture", "srcud"),
    of("rcutorture", "tasks"),
    of("rcutorture", "tasks-rude"),
    of("rcutorture", "tasks-tracing"),
    of("locktorture", "spin_lock"),
    of("locktorture", "spin_lock_irq"),
    of("locktorture", "raw_spin_lock"),
    of("locktorture", "raw_spin_lock_irq"),
    of("locktorture", "rw_lock"),
    of("locktorture", "rw_lock_irq"),
    of("locktorture", "mutex_lock"),
    of("locktorture", "ww_mutex_lock"),
    of("locktorture", "rtmutex_lock"),
    of("locktorture", "rwsem_lock"),
    of("locktorture", "percpu_rwsem_lock"),
    of("scftorture", ""),
];

/// What is broken on purpose.
const BROKEN: [Torture; 2] = [of("rcutorture", "busted"), of("locktorture", "lock_busted")];

fn seconds() -> u64 {
    let seconds = std::env::var("TANE_TORTURE_SECONDS").ok();
    seconds.map_or(2, |text| text.parse().expect("TANE_TORTURE_SECONDS"))
}

fn is_wanted(torture: Torture) -> bool {
    let only = std::env::var("TANE_TORTURE_ONLY").unwrap_or_default();
    format!("{} {}", torture.who, torture.what).contains(&only)
}

impl Torture {
    fn command_line(self, seconds: u64) -> String {
        let Torture { who, what } = self;
        let more = match who {
            "rcutorture" => RCU,
            "locktorture" => LOCK,
            _ => SCF,
        };
        let kind = match what {
            "" => String::new(),
            what => format!("{who}.torture_type={what} "),
        };
        let alone = only_torture(who);
        // An RCU whose writer got nowhere from one time to the next is stalled.
        let statistics = (seconds / 3).clamp(1, 15);
        format!(
            "{alone} {kind}{who}.shutdown_secs={seconds} \
             {who}.stat_interval={statistics} {PATIENT} {more}"
        )
    }

    /// The log of a kernel that has been tortured until it was turned off.
    fn run(self, cpus: u32, seconds: u64) -> Option<String> {
        let log = Arc::new(Mutex::new(String::new()));
        let sink = log.clone();
        let kernel = builder("torture")?
            .cpus(cpus)
            .memory(512 << 20)
            .cmdline(&self.command_line(seconds))
            .log(move |text| sink.lock().unwrap().push_str(text))
            .boot();
        let text = || log.lock().unwrap().clone();
        let kernel = kernel.unwrap_or_else(|e| panic!("{e}\n{}", text()));
        let patience = Instant::now() + Duration::from_secs(seconds) + PATIENCE;
        while kernel.is_alive() {
            if Instant::now() > patience {
                // No thread inside can be made to end, so the process does.
                eprintln!("{} {} on {cpus} CPUs goes on and on", self.who, self.what);
                eprintln!("{}", text());
                std::process::abort();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let words = kernel.last_words();
        drop(kernel);
        assert!(words.contains("powered off"), "{words}\n{}", text());
        Some(text())
    }
}

/// "SUCCESS" of "spin_lock-torture:--- End of test: SUCCESS: ...".
fn verdict(log: &str) -> Option<&str> {
    let (_, after) = log.split_once("End of test: ")?;
    after.split([':', ' ', '\n', '[']).next()
}

/// How often CPUs came back and went: "onoff: 7/8:8/8 ..." of the last statistics,
/// which have successes and attempts, or what was told of each.
fn switched(log: &str) -> Option<[u64; 2]> {
    let Some((_, after)) = log.rsplit_once("onoff: ") else {
        let told = |how| log.matches(&format!("torture_onoff task: {how} ")).count() as u64;
        return Some([told("onlined"), told("offlined")]);
    };
    let counts = after.split(' ').next()?;
    let counts: Vec<_> = counts.split([':', '/']).map(str::parse).collect();
    match counts.into_iter().collect::<Result<Vec<u64>, _>>().ok()?[..] {
        [came, _, went, _] => Some([came, went]),
        _ => None,
    }
}

/// What was done, of the last statistics: versions that an RCU's writer made,
/// locks taken, calls made.
fn done(log: &str) -> Option<u64> {
    ["ver: ", "Writes:  Total: ", "scf_invoked_count ver: "]
        .iter()
        .filter_map(|mark| {
            let (_, after) = log.rsplit_once(mark)?;
            let digits = after.split(|c: char| !c.is_ascii_digit()).next()?;
            digits.parse().ok()
        })
        .max()
}

/// All that is wrong with what a torture of something sound has said.
fn wrongs(log: &str, seconds: u64) -> Vec<String> {
    let complaints = complaints(log).into_iter();
    let mut wrongs: Vec<_> = complaints.map(str::to_owned).collect();
    // In a second or two a busy host may give it no time at all.
    let stalls = if seconds < 45 {
        "!!!"
    } else {
        "Writer stall state"
    };
    let marks = ["!!!", "csd: ", stalls];
    let marked = |line: &&str| marks.iter().any(|mark| line.contains(mark));
    wrongs.extend(log.lines().filter(marked).map(str::to_owned));
    // lockdep's test of itself: "Good, all 378 testcases passed!"
    if !log.contains("testcases passed!") {
        wrongs.push(String::from("lockdep does not find what it should"));
    }
    if verdict(log) != Some("SUCCESS") {
        wrongs.push(format!("the verdict is {:?}", verdict(log)));
    }
    wrongs
}

/// Longer than a short run: on a busy host that may have had no time for anything.
fn longer(seconds: u64) -> impl Iterator<Item = u64> {
    [4, 8, 16, 32]
        .into_iter()
        .filter(move |&more| more > seconds)
}

/// Torture it until it has done something, and say what was wrong; how often CPUs went
/// and came back. None where there is no kernel.
fn survives(torture: Torture, cpus: u32, seconds: u64) -> Option<(Option<String>, u64)> {
    let mut log = torture.run(cpus, seconds)?;
    for more in longer(seconds) {
        if done(&log).is_some_and(|done| done > 0) {
            break;
        }
        log = torture.run(cpus, more)?;
    }
    let Torture { who, what } = torture;
    println!(
        "{who} {what}, {cpus} CPUs, {seconds} s: {}, {} done, CPUs {:?}",
        verdict(&log).unwrap_or("no verdict"),
        done(&log).unwrap_or(0),
        switched(&log),
    );
    let [came, went] = switched(&log).unwrap_or_default();
    let mut wrongs = wrongs(&log, seconds);
    if done(&log).is_none_or(|done| done == 0) {
        wrongs.push(format!("done: {:?}", done(&log)));
    }
    if wrongs.is_empty() {
        return Some((None, came.min(went)));
    }
    if let Some(dir) = std::env::var_os("TANE_TORTURE_LOGS") {
        let path = std::path::Path::new(&dir);
        let path = path.join(format!("{who}-{what}-{cpus}.log"));
        std::fs::write(&path, &log).expect("writes the log");
    }
    let wrongs = format!("{who} {what}, {cpus} CPUs: {}", wrongs.join("\n"));
    Some((Some(wrongs), came.min(went)))
}

#[test]
fn what_is_sound_survives_torture() {
    let seconds = seconds();
    let cpus: &[u32] = if seconds < 30 { &[2, 4] } else { &[2, 4, 8] };
    let mut failed = Vec::new();
    let mut switches = BTreeMap::new();
    let wanted = SOUND.into_iter().enumerate();
    for (n, torture) in wanted.filter(|&(_, torture)| is_wanted(torture)) {
        // In a short run each has one number of CPUs, in a long one all.
        let some = match seconds < 30 {
            true => &cpus[n % cpus.len()..=n % cpus.len()],
            false => cpus,
        };
        for &cpus in some {
            let Some((wrong, times)) = survives(torture, cpus, seconds) else {
                return;
            };
            failed.extend(wrong);
            let (sum, last) = switches.entry(torture.who).or_insert((0, torture));
            (*sum, *last) = (*sum + times, torture);
        }
    }
    // On a busy host a short run may have had no time for one: then a longer one has.
    for (sum, torture) in switches.into_values() {
        let came_back = sum > 0
            || longer(seconds).any(|seconds| {
                let (wrong, times) = survives(torture, 2, seconds).expect("there was a kernel");
                failed.extend(wrong);
                times > 0
            });
        if !came_back {
            failed.push(format!("{}: no CPU went and came back", torture.who));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

/// Wound-wait and wait-die mutexes test themselves while the kernel starts.
#[test]
fn mutexes_that_are_taken_in_any_order_resolve_every_deadlock() {
    let words = only_torture("ww_mutex");
    let Some(builder) = builder("torture") else {
        return;
    };
    let builder = builder.cpus(2).memory(512 << 20).cmdline(&words);
    let kernel = builder.cmdline(PATIENT).boot().expect("boots");
    let log = kernel.dmesg();
    assert!(log.contains("All ww mutex selftests passed"), "{log}");
    assert_eq!(complaints(&log), [""; 0], "{log}");
}

#[test]
fn torture_finds_what_is_broken_on_purpose() {
    for torture in BROKEN.into_iter().filter(|&torture| is_wanted(torture)) {
        // It takes two at a time, which one processor of the host may not give.
        let found = (0..10).any(|_| {
            let log = torture.run(4, seconds().max(2));
            log.is_none_or(|log| verdict(&log) == Some("FAILURE"))
        });
        assert!(found, "{} {}", torture.who, torture.what);
    }
}

#[test]
fn the_reader_of_verdicts_knows_good_from_bad() {
    let good = "\
[    0.4] Good, all 378 testcases passed! |
[    1.1] rcu-torture: rtc: 000000006f9bca0c ver: 11 tfle: 0 rta: 12 onoff: 7/7:8/8 1,2:3,4 5:6 (HZ=100) barrier: 1/1:0
[    2.1] rcu-torture: rtc: 000000006f9bca0c ver: 25 tfle: 0 rta: 12 onoff: 9/9:8/9 1,2:3,4 5:6 (HZ=100) barrier: 1/1:0
[    2.2] rcu-torture:--- End of test: SUCCESS: nreaders=1
";
    assert_eq!(verdict(good), Some("SUCCESS"));
    assert_eq!(switched(good), Some([9, 8]));
    let told = "torture_onoff task: offlined 1\ntorture_onoff task: onlined 1\n";
    assert_eq!(switched(told), Some([1, 1]));
    assert_eq!(switched(""), Some([0, 0]));
    assert_eq!(done(good), Some(25));
    assert_eq!(wrongs(good, 2), [""; 0]);
    let bad = good.replace("SUCCESS", "FAILURE");
    assert_eq!(wrongs(&bad, 2).len(), 1);
    let odd = good.replace("ver: 25", "!!! ver: 25");
    assert_eq!(wrongs(&odd, 2).len(), 1);
    let cut = good.split_once("--- End").expect("a verdict").0;
    assert_eq!(wrongs(cut, 2).len(), 1);
    let left = "WARNING: CPU: 1 PID: 20 at kernel/sched/core.c:8365 sched_cpu_dying+0x9d\n";
    assert_eq!(wrongs(&(good.to_owned() + left), 2).len(), 1);
    let lock = "Writes:  Total: 4711  Max/Min: 12/3 ???  Fail: 0 \n";
    assert_eq!(done(lock), Some(4711));
}
