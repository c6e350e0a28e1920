//! How often which values were there, as bars.

use std::collections::BTreeMap;
use std::fmt;

/// Numbers that each get a bar of their own, at most; more are put together by powers
/// of two.
const SINGLE: usize = 20;
/// Letters of the longest bar.
const WIDTH: u64 = 40;

/// Values, and how often each was there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// By ascending values.
    pub buckets: Vec<Bucket>,
}

/// Some values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// One value, or "A to B" for those from A to B.
    pub values: String,
    /// How often one of them was there.
    pub count: u64,
}

impl Histogram {
    /// Of what fields of events hold: numbers, decimal or with 0x, or else texts.
    pub fn of_texts<'t>(values: impl Iterator<Item = &'t str>) -> Self {
        let values: Vec<_> = values.collect();
        let numbers: Option<Vec<_>> = values.iter().map(|value| number(value)).collect();
        match numbers {
            Some(numbers) => Self::of_numbers(&numbers, SINGLE),
            None => Self::single(&values),
        }
    }

    /// Of times in ns, by powers of two.
    pub fn of_times(times: &[u64]) -> Self {
        let times: Vec<_> = times.iter().map(|time| i128::from(*time)).collect();
        Self::of_numbers(&times, 0)
    }

    fn of_numbers(numbers: &[i128], single: usize) -> Self {
        let mut counts = BTreeMap::<i128, u64>::new();
        for number in numbers {
            *counts.entry(*number).or_insert(0) += 1;
        }
        if counts.len() <= single {
            let bucket = |(value, count): (i128, u64)| Bucket {
                values: value.to_string(),
                count,
            };
            let buckets = counts.into_iter().map(bucket).collect();
            return Histogram { buckets };
        }
        let mut powers = BTreeMap::<(i128, i128), u64>::new();
        for (number, count) in counts {
            *powers.entry(range(number)).or_insert(0) += count;
        }
        let bucket = |((from, to), count): ((i128, i128), u64)| Bucket {
            values: match from == to {
                true => from.to_string(),
                false => format!("{from} to {to}"),
            },
            count,
        };
        Histogram {
            buckets: powers.into_iter().map(bucket).collect(),
        }
    }

    fn single(values: &[&str]) -> Self {
        let mut counts = BTreeMap::<&str, u64>::new();
        for value in values {
            *counts.entry(value).or_insert(0) += 1;
        }
        let bucket = |(values, count): (&str, u64)| Bucket {
            values: values.to_owned(),
            count,
        };
        Histogram {
            buckets: counts.into_iter().map(bucket).collect(),
        }
    }
}

fn number(text: &str) -> Option<i128> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok().map(i128::from),
        None => text.parse().ok(),
    }
}

/// From one power of two to what is below the next.
fn range(number: i128) -> (i128, i128) {
    if number < 0 {
        let (from, to) = range(-number);
        return (-to, -from);
    }
    match number.checked_ilog2() {
        None => (0, 0),
        Some(power) => (1 << power, (2 << power) - 1),
    }
}

/// A line for each: the values, how often, and a bar.
impl fmt::Display for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = self.buckets.iter().map(|b| b.count).max().unwrap_or(1);
        let wide = self.buckets.iter().map(|b| b.values.chars().count()).max();
        let wide = wide.unwrap_or(0);
        for Bucket { values, count } in &self.buckets {
            let bar = (count * WIDTH).div_ceil(most) as usize;
            writeln!(f, "{values:>wide$} {count:>9} {:#<bar$}", "")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(histogram: &Histogram) -> Vec<(&str, u64)> {
        let buckets = histogram.buckets.iter();
        buckets.map(|b| (&b.values[..], b.count)).collect()
    }

    #[test]
    fn few_numbers_have_a_bar_each_by_their_values() {
        let of =
            |words: &str| Histogram::of_texts(words.split(' ').collect::<Vec<_>>().into_iter());
        assert_eq!(
            pairs(&of("10 9 0x9 -28")),
            [("-28", 1), ("9", 2), ("10", 1)]
        );
        assert_eq!(pairs(&of("b a b")), [("a", 1), ("b", 2)]);
        assert_eq!(
            of("1 1 2").to_string().lines().next(),
            Some(&*format!("1         2 {}", "#".repeat(40)))
        );
    }

    #[test]
    fn many_numbers_are_put_together_by_powers_of_two() {
        let numbers: Vec<String> = (-2..40).map(|n| n.to_string()).collect();
        let many = Histogram::of_texts(numbers.iter().map(String::as_str));
        let wanted = [
            ("-3 to -2", 1),
            ("-1", 1),
            ("0", 1),
            ("1", 1),
            ("2 to 3", 2),
            ("4 to 7", 4),
            ("8 to 15", 8),
            ("16 to 31", 16),
            ("32 to 63", 8),
        ];
        assert_eq!(pairs(&many), wanted);
        assert_eq!(
            pairs(&Histogram::of_times(&[1024, 1500])),
            [("1024 to 2047", 2)]
        );
        assert_eq!(range(i128::from(u64::MAX)).0, 1 << 63);
    }
}
