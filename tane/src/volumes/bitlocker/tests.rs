use super::layout::{pieces, Piece};
use super::*;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// One of cryptsetup's images (scripts/foreign-images), which Windows made.
fn image(name: &str) -> Option<(Header, Metadata)> {
    let at = concat!(env!("CARGO_MANIFEST_DIR"), "/../build/foreign/cryptsetup");
    let Ok(file) = File::open(Path::new(at).join(name)) else {
        tane_test_support::skip(format!(
            "there is no {at}/{name}; scripts/foreign-images gets it"
        ));
        return None;
    };
    let part = |at, len| {
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, at).expect("reads");
        Ok(bytes)
    };
    let header = Header::parse(&part(0, header::SIZE).expect("a boot sector"));
    let header = header.expect("a header");
    let found = read(&header, part).expect("metadata");
    found.into_iter().next().map(|metadata| (header, metadata))
}

/// Windows had begun to encrypt this volume, and keeps such a key meanwhile.
#[test]
fn a_clear_key_opens_without_a_secret() {
    let Some((header, metadata)) = image("bitlk-clearkey-aes-cbc-128.img") else {
        return;
    };
    assert!(header.is_partial);
    let kinds = metadata.protectors.iter().map(|p| p.protector.kind);
    assert!(kinds.clone().any(|kind| kind == ProtectorKind::ClearKey));
    let Unlocked::Yes(by_clear_key) = unlock(&metadata, &[]) else {
        panic!("it opens");
    };
    let mut metadata = metadata;
    let is_secret = |p: &protector::Sealing| p.protector.kind != ProtectorKind::ClearKey;
    metadata.protectors.retain(is_secret);
    let by_password = unlock(&metadata, &[b"anaconda".to_vec()]);
    assert!(matches!(by_password, Unlocked::Yes(key) if key == by_clear_key));
}

#[test]
fn a_recovery_password_is_known_by_its_form_and_tells_what_is_mistyped() {
    let good = b"363770-230505-096371-652674-567006-579150-291038-408111";
    let digest = secret::recovery_password(good);
    assert!(digest.is_some());
    for same in [
        good.iter().copied().filter(|c| *c != b'-').collect(),
        [&good[..], b"\r\n"].concat(),
        good.map(|c| if c == b'-' { b' ' } else { c }).to_vec(),
    ] {
        assert_eq!(secret::recovery_password(&same), digest);
        assert_eq!(secret::mistyped_group(&same), None);
    }
    let mut wrong = *good;
    wrong[7] = b'3';
    assert_eq!(secret::recovery_password(&wrong), None);
    assert_eq!(secret::mistyped_group(&wrong), Some(2));
    // Eleven times more than two bytes hold.
    let large = b"720896-000000-000000-000000-000000-000000-000000-000000";
    assert_eq!(secret::recovery_password(large), None);
    assert_eq!(secret::mistyped_group(large), Some(1));
    for other in [&good[..54], b"anaconda", b"", b"\xff\xfe", &[b'1'; 49]] {
        assert_eq!(secret::recovery_password(other), None);
        assert_eq!(secret::mistyped_group(other), None);
    }
}

#[test]
fn metadata_that_meets_or_overlaps_is_zeros_once() {
    let Some((_, mut metadata)) = image("bitlk-aes-xts-128.img") else {
        return;
    };
    let area = metadata::SIZE as u64;
    let first = metadata.moved.end - metadata.moved.start;
    metadata.size = 16 * area;
    metadata.copies = [8 * area, 4 * area, 4 * area + 512];
    metadata.moved = 9 * area..9 * area + first;
    let piece = |start: u64, end: u64, from: Option<u64>| Piece {
        start: start / 512,
        len: (end - start) / 512,
        from: from.map(|at| at / 512),
    };
    let wanted = [
        piece(0, first, Some(9 * area)),
        piece(first, 4 * area, Some(first)),
        piece(4 * area, 5 * area, None),
        piece(5 * area, 5 * area + 512, None),
        piece(5 * area + 512, 8 * area, Some(5 * area + 512)),
        piece(8 * area, 9 * area, None),
        piece(9 * area, 9 * area + first, None),
        piece(9 * area + first, 16 * area, Some(9 * area + first)),
    ];
    assert_eq!(pieces(&metadata, 512).as_deref(), Some(&wanted[..]));
    for hostile in [u64::MAX, u64::MAX - area, 16 * area, 0, 4 * area + 1] {
        metadata.copies[1] = hostile;
        assert_eq!(pieces(&metadata, 512), None, "{hostile:#x}");
    }
}

#[test]
fn a_startup_key_that_is_cut_off_is_none() {
    let mut file = vec![0; 40];
    file[0] = 40;
    file[4] = 1;
    file[16..32].fill(7);
    let id = crate::table::guid(&file[16..32]).expect("an id");
    assert_eq!(super::secret::startup_key(&file, &id), None);
}
