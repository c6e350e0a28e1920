//! One image among several: by its name, its digest, or its kind of processor.

use super::Image;
use tane_copy::names::plain;

/// Digits of a digest that are enough to tell images apart, as people see them.
const SHORT: usize = 12;
const HERE: &str = "linux/amd64";

/// What was chosen where nobody had said what.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Its kind of processor, and the others that there are.
    pub text: Option<String>,
    /// It is not the kind that the kernel is.
    pub is_foreign: bool,
}

/// `wanted`: a name with or without its tag, or a digest or how one begins.
pub fn choose(images: Vec<Image>, wanted: Option<&str>) -> Result<(Image, Choice), String> {
    if images.is_empty() {
        return Err("lists no images".into());
    }
    let (mut left, others): (Vec<_>, Vec<_>) = match wanted {
        None => (images, Vec::new()),
        Some(wanted) => meant(images, wanted),
    };
    if left.is_empty() {
        let wanted = wanted.unwrap_or_default();
        return Err(format!(
            "no image is called {}; there are:{}",
            plain(wanted.as_bytes()),
            list(&others)
        ));
    }
    if left.iter().any(|image| !image.is_called_as(&left[0])) {
        return Err(several(&left));
    }
    // They differ in their platform, if in anything.
    if left.iter().any(|image| image.lacks.is_none()) {
        left.retain(|image| image.lacks.is_none());
    }
    let is_here = |image: &&Image| image.platform.as_deref() == Some(HERE);
    let here = left.iter().filter(is_here).count();
    if left.len() > 1 && here != 1 {
        return Err(several(&left));
    }
    let platforms: Vec<_> = left.iter().filter_map(|i| i.platform.clone()).collect();
    let at = left.iter().position(|i| is_here(&i)).unwrap_or(0);
    let image = left.swap_remove(at);
    if let Some(lacks) = image.lacks {
        return Err(lacks);
    }
    let platform = image.platform.clone().unwrap_or_default();
    let choice = Choice {
        is_foreign: !platform.is_empty() && platform != HERE,
        text: (platforms.len() > 1).then(|| {
            let all = platforms.join(", ");
            let text = format!("took the image for {platform} of those for {all}");
            plain(text.as_bytes()).into_owned()
        }),
    };
    Ok((image, choice))
}

/// Those that are meant, and the others.
fn meant(images: Vec<Image>, wanted: &str) -> (Vec<Image>, Vec<Image>) {
    let exact = |image: &Image| image.names.iter().any(|name| name == wanted);
    let (exactly, others): (Vec<_>, Vec<_>) = images.into_iter().partition(exact);
    if !exactly.is_empty() {
        return (exactly, others);
    }
    let digest = wanted.strip_prefix("sha256:").unwrap_or(wanted);
    let by_digest = |image: &Image| {
        let digits = image.digest.strip_prefix("sha256:").unwrap_or_default();
        digest.len() >= SHORT && digits.starts_with(digest)
    };
    others
        .into_iter()
        .partition(|i| by_digest(i) || i.names.iter().any(|name| is_short_for(wanted, name)))
}

/// As docker's users write it: without where it comes from, and without its tag.
fn is_short_for(wanted: &str, name: &str) -> bool {
    let bare = name.strip_prefix("docker.io/").unwrap_or(name);
    let bare = bare.strip_prefix("library/").unwrap_or(bare);
    let untagged = |name| match str::rsplit_once(name, ':') {
        Some((before, tag)) if !tag.contains('/') => before,
        _ => name,
    };
    [bare, untagged(bare), untagged(name)].contains(&wanted)
}

fn several(images: &[Image]) -> String {
    format!(
        "holds several images: choose one by --ref NAME[:TAG] or its digest:{}",
        list(images)
    )
}

fn list(images: &[Image]) -> String {
    images.iter().map(|image| format!("\n  {image}")).collect()
}

impl Image {
    fn is_called_as(&self, other: &Image) -> bool {
        let sorted = |image: &Image| {
            let mut names = image.names.clone();
            names.sort();
            names.dedup();
            names
        };
        sorted(self) == sorted(other)
    }
}

impl std::fmt::Display for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let short = "sha256:".len() + SHORT;
        let digest: String = self.digest.chars().take(short).collect();
        let words = self.names.iter().chain(&self.platform).chain([&digest]);
        let words: Vec<_> = words.map(|word| plain(word.as_bytes())).collect();
        f.write_str(&words.join("  "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(names: &[&str], platform: Option<&str>, digit: char) -> Image {
        Image {
            names: names.iter().map(|name| name.to_string()).collect(),
            platform: platform.map(str::to_owned),
            digest: format!("sha256:{}", String::from(digit).repeat(64)),
            layers: Vec::new(),
            lacks: None,
        }
    }

    /// The first digit of what is chosen, or why nothing is.
    fn chosen(images: Vec<Image>, wanted: Option<&str>) -> Result<String, String> {
        choose(images, wanted).map(|(image, _)| image.digest[7..8].to_owned())
    }

    fn two() -> Vec<Image> {
        vec![
            image(&["docker.io/library/a:1", "1"], None, 'a'),
            image(&["example.org:5000/b/c:2"], None, 'b'),
        ]
    }

    #[test]
    fn of_several_images_none_is_taken_unasked() {
        let why = chosen(two(), None).expect_err("several");
        for part in ["--ref", "library/a:1", "b/c:2", "sha256:bbbbbbbbbbbb"] {
            assert!(why.contains(part), "{why}");
        }
        let why = chosen(two(), Some("d")).expect_err("none");
        assert!(why.contains("no image is called d") && why.contains("b/c:2"));
        assert!(chosen(Vec::new(), None).is_err());
    }

    #[test]
    fn an_image_is_chosen_by_its_name_with_or_without_tag_or_by_its_digest() {
        for name in ["docker.io/library/a:1", "a:1", "a", "1", "aaaaaaaaaaaa"] {
            assert_eq!(chosen(two(), Some(name)).as_deref(), Ok("a"), "{name}");
        }
        let digest = format!("sha256:{}", "b".repeat(64));
        for name in ["example.org:5000/b/c", "example.org:5000/b/c:2", &digest] {
            assert_eq!(chosen(two(), Some(name)).as_deref(), Ok("b"), "{name}");
        }
        assert!(chosen(two(), Some("example.org")).is_err());
        // The whole name comes before what it could be short for.
        let images = vec![image(&["x"], None, 'a'), image(&["x:1"], None, 'b')];
        assert_eq!(chosen(images, Some("x")).as_deref(), Ok("a"));
        let tags = vec![image(&["x:1"], None, 'a'), image(&["x:2"], None, 'b')];
        assert!(chosen(tags, Some("x")).is_err());
    }

    #[test]
    fn of_one_images_platforms_the_kernels_own_is_taken_and_said() {
        let (amd, arm) = (Some(HERE), Some("linux/arm64/v8"));
        let all = || vec![image(&["a"], arm, 'a'), image(&["a"], amd, 'b')];
        let (image_, choice) = choose(all(), None).expect("one");
        assert_eq!(image_.platform.as_deref(), amd);
        assert!(choice.text.is_some_and(|text| text.contains("arm64/v8")));
        assert!(!choice.is_foreign);
        assert_eq!(chosen(all(), Some(&"a".repeat(64))).as_deref(), Ok("a"));
        // What is listed and not there is no choice.
        let mut lacking = all();
        lacking[1].lacks = Some("gone".into());
        let (image_, choice) = choose(lacking, None).expect("one");
        assert_eq!(image_.platform.as_deref(), arm);
        assert!(choice.is_foreign);
        let mut alone = all();
        alone.truncate(1);
        alone[0].lacks = Some("gone".into());
        assert_eq!(chosen(alone, None), Err("gone".into()));
        let neither = vec![
            image(&["a"], arm, 'a'),
            image(&["a"], Some("linux/386"), 'b'),
        ];
        assert!(chosen(neither, None).expect_err("several").contains("386"));
        let same = vec![image(&[], None, 'a'), image(&[], None, 'b')];
        assert!(chosen(same, None).is_err());
    }
}
