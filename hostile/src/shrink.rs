//! The least part of a list that still does something.

/// The parts that are left when none can go without `still` becoming false, or when it
/// has been asked so often. What is given does it.
pub fn least<T: Clone>(
    all: Vec<T>,
    tries: &mut u32,
    mut still: impl FnMut(&[T]) -> bool,
) -> Vec<T> {
    let mut kept = all;
    let mut size = kept.len();
    while size > 0 && *tries > 0 {
        let mut at = 0;
        while at < kept.len() && *tries > 0 {
            let end = (at + size).min(kept.len());
            let fewer = [&kept[..at], &kept[end..]].concat();
            *tries -= 1;
            match still(&fewer) {
                true => kept = fewer,
                false => at = end,
            }
        }
        size /= 2;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_what_it_takes() {
        let mut asked = 0;
        let mut tries = 1000;
        let least = least((0..100).collect(), &mut tries, |some| {
            asked += 1;
            some.contains(&17) && some.contains(&18) && some.contains(&90)
        });
        assert_eq!(least, [17, 18, 90]);
        assert_eq!(asked + tries, 1000);
        assert!(asked < 100);
    }

    #[test]
    fn it_ends_when_it_has_asked_often_enough() {
        let least = least(vec![1; 50], &mut 3, |some| some.len() > 2);
        assert!((2..50).contains(&least.len()));
    }
}
