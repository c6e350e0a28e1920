//! The CPUs' caches and who shares them, as sysfs tells.

use std::collections::BTreeSet;
use std::path::Path;

#[derive(Clone, Debug, PartialEq)]
pub struct Cache {
    pub level: u32,
    pub bytes: usize,
    /// The CPUs behind it.
    pub cpus: BTreeSet<usize>,
}

/// The data caches of all CPUs in `/sys/devices/system/cpu` or a copy of it.
pub fn read(root: &Path) -> Result<Vec<Cache>, String> {
    let mut caches: Vec<Cache> = Vec::new();
    for cpu in 0..4096 {
        let dir = root.join(format!("cpu{cpu}/cache"));
        if !dir.is_dir() {
            if root.join(format!("cpu{cpu}")).is_dir() {
                continue;
            }
            break;
        }
        for index in 0.. {
            let dir = dir.join(format!("index{index}"));
            let word = |name: &str| {
                let path = dir.join(name);
                let text = std::fs::read_to_string(&path);
                let text = text.map_err(|e| format!("{}: {e}", path.display()));
                text.map(|text| text.trim().to_string())
            };
            if !dir.is_dir() {
                break;
            }
            if word("type")? == "Instruction" {
                continue;
            }
            let cache = Cache {
                level: word("level")?.parse().map_err(|_| "not a cache level")?,
                bytes: size(&word("size")?)?,
                cpus: list(&word("shared_cpu_list")?)?,
            };
            if !caches.contains(&cache) {
                caches.push(cache);
            }
        }
    }
    match caches.is_empty() {
        true => Err(format!("{} tells of no caches", root.display())),
        false => Ok(caches),
    }
}

/// Bytes of the cache of this level, where its first CPU is.
pub fn bytes(caches: &[Cache], level: u32) -> Option<usize> {
    let mut of = caches.iter().filter(|c| c.level == level);
    of.next().map(|c| c.bytes)
}

/// Two CPUs of `allowed` whose smallest common cache is of this level; 0: none.
pub fn pair(caches: &[Cache], allowed: &[usize], level: u32) -> Option<(usize, usize)> {
    let nearest = |a, b| {
        let common = caches
            .iter()
            .filter(|c| c.cpus.contains(&a) && c.cpus.contains(&b));
        common.map(|c| c.level).min().unwrap_or(0)
    };
    allowed.iter().enumerate().find_map(|(i, &a)| {
        let mut later = allowed[i + 1..].iter();
        later.find(|&&b| nearest(a, b) == level).map(|&b| (a, b))
    })
}

/// 48K, 2M: what sysfs says.
fn size(text: &str) -> Result<usize, String> {
    let (digits, shift) = match text.chars().last() {
        Some('K') => (&text[..text.len() - 1], 10),
        Some('M') => (&text[..text.len() - 1], 20),
        _ => (text, 0),
    };
    let number: usize = digits.parse().map_err(|_| format!("not a size: {text}"))?;
    Ok(number << shift)
}

/// 0-3,8-11: what sysfs says.
fn list(text: &str) -> Result<BTreeSet<usize>, String> {
    let bad = |_| format!("not a list of CPUs: {text}");
    let mut cpus = BTreeSet::new();
    for part in text.split(',').filter(|p| !p.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse::<usize>().map_err(bad)?..=last.parse().map_err(bad)?);
    }
    Ok(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of two sockets of two cores of two threads.
    fn machine(root: &Path) {
        for cpu in 0..8usize {
            let core = cpu / 2 * 2;
            let socket = cpu / 4 * 4;
            let core = format!("{core}-{}", core + 1);
            let socket = format!("{socket}-{}", socket + 3);
            let indices = [
                ("1", "Data", "48K", core.as_str()),
                ("1", "Instruction", "32K", &core),
                ("2", "Unified", "2M", &core),
                ("3", "Unified", "32768K", &socket),
            ];
            for (i, (level, kind, size, list)) in indices.iter().enumerate() {
                let dir = root.join(format!("cpu{cpu}/cache/index{i}"));
                std::fs::create_dir_all(&dir).unwrap();
                let files = [("level", level), ("type", kind), ("size", size)];
                for (name, text) in files.into_iter().chain([("shared_cpu_list", list)]) {
                    std::fs::write(dir.join(name), format!("{text}\n")).unwrap();
                }
            }
        }
    }

    #[test]
    fn pairs_of_cpus_are_found_by_the_nearest_cache_they_share() {
        let root = std::env::temp_dir().join(format!("tane-topology-{}", std::process::id()));
        machine(&root);
        let caches = read(&root);
        std::fs::remove_dir_all(&root).unwrap();
        let caches = caches.unwrap();
        assert_eq!(caches.len(), 4 + 4 + 2);
        let sizes = [1, 2, 3, 4].map(|level| bytes(&caches, level));
        assert_eq!(sizes, [Some(48 << 10), Some(2 << 20), Some(32 << 20), None]);
        let all: Vec<_> = (0..8).collect();
        assert_eq!(pair(&caches, &all, 1), Some((0, 1)));
        assert_eq!(pair(&caches, &all, 2), None);
        assert_eq!(pair(&caches, &all, 3), Some((0, 2)));
        assert_eq!(pair(&caches, &all, 0), Some((0, 4)));
        assert_eq!(pair(&caches, &[1, 5], 1), None);
    }

    #[test]
    fn a_machine_that_tells_nothing_is_an_error() {
        let error = read(Path::new("/nonexistent")).unwrap_err();
        assert!(error.contains("/nonexistent"), "{error}");
    }
}
