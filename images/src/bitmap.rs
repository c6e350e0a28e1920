//! Bitmaps that say which sectors of a block a container has.

use std::io;

/// Whether bit `first` is set, and where, at `end` at the latest, the bits stop being
/// like it. `word` has 64 of them by their number, the first one in its lowest bit.
pub(crate) fn run(
    first: u64,
    end: u64,
    mut word: impl FnMut(u64) -> io::Result<u64>,
) -> io::Result<(bool, u64)> {
    let (mut bit, mut set) = (first, None);
    while bit < end {
        let bits = word(bit / 64)? >> (bit % 64);
        let set = *set.get_or_insert(bits & 1 == 1);
        let run = match set {
            true => bits.trailing_ones(),
            false => bits.trailing_zeros(),
        };
        let left = 64 - bit % 64;
        bit += u64::from(run).min(left);
        if u64::from(run) < left {
            break;
        }
    }
    Ok((set.unwrap_or(false), bit.min(end)))
}

#[cfg(test)]
mod tests {
    use super::run;

    #[test]
    fn runs_go_over_words_and_end_where_they_are_told_to() {
        let words = [0xffff_ffff_ffff_fff0u64, u64::MAX, 0x7];
        let word = |index: u64| Ok(words[index as usize]);
        for (first, end, expected) in [
            (0, 192, (false, 4)),
            (4, 192, (true, 131)),
            (70, 100, (true, 100)),
            (131, 192, (false, 192)),
        ] {
            assert_eq!(run(first, end, word).unwrap(), expected);
        }
    }
}
