//! The header of LUKS 2: JSON behind a binary page; "LUKS2 On-Disk Format
//! Specification", 1.1.

use super::derive::{Hash, Kdf};
use super::{text, Check, Data, Header, Slot};
use serde_json::Value;

const PAGE: usize = 4096;

pub(crate) fn parse(bytes: &[u8]) -> Result<Header, String> {
    let damaged = || String::from("its header is damaged");
    let len = bytes.get(8..16).ok_or_else(damaged)?;
    let len = u64::from_be_bytes(len.try_into().map_err(|_| damaged())?) as usize;
    let json = bytes.get(PAGE..len).ok_or_else(damaged)?;
    let end = json.iter().position(|b| *b == 0).unwrap_or(json.len());
    let json: Value = serde_json::from_slice(&json[..end]).map_err(|_| damaged())?;

    let digests = entries(&json["digests"]);
    let mut checks = Vec::new();
    let mut slots = Vec::new();
    for (_, digest) in &digests {
        let keyslots = digest["keyslots"].as_array().ok_or_else(damaged)?;
        for id in keyslots.iter().filter_map(Value::as_str) {
            // Slots of other kinds (reencryption) cannot be opened by a secret.
            if json["keyslots"][id]["type"] == "luks2" {
                slots.push((
                    slot(&json["keyslots"][id]).ok_or_else(damaged)??,
                    checks.len(),
                ));
            }
        }
        checks.push(Check {
            kdf: kdf(digest).ok_or_else(damaged)??,
            digest: base64(digest["digest"].as_str().unwrap_or_default()).ok_or_else(damaged)?,
        });
    }
    let segments = entries(&json["segments"]);
    let [(_, segment)] = &segments[..] else {
        return Err("is being encrypted anew; finish that with cryptsetup reencrypt".into());
    };
    if segment["type"] != "crypt" || !segment["integrity"].is_null() {
        return Err("uses integrity protection, which is not supported".into());
    }
    let len = match segment["size"].as_str() {
        Some("dynamic") => None,
        _ => Some(number(&segment["size"]).ok_or_else(damaged)? / 512),
    };
    let cipher = segment["encryption"].as_str().ok_or_else(damaged)?;
    let sector = segment["sector_size"].as_u64().unwrap_or(512);
    Ok(Header {
        slots,
        checks,
        data: Data {
            start: number(&segment["offset"]).ok_or_else(damaged)? / 512,
            len,
            cipher: text(cipher.as_bytes())?,
            tweak: number(&segment["iv_tweak"]).unwrap_or(0),
            sector: u32::try_from(sector).map_err(|_| damaged())?,
        },
    })
}

/// By number.
fn entries(object: &Value) -> Vec<(u32, &Value)> {
    let entries = object.as_object().into_iter().flatten();
    let mut entries: Vec<_> = entries
        .filter_map(|(id, value)| Some((id.parse().ok()?, value)))
        .collect();
    entries.sort_by_key(|(id, _)| *id);
    entries
}

/// Large numbers are written as text.
fn number(value: &Value) -> Option<u64> {
    value.as_str()?.parse().ok()
}

/// None: it is damaged; an error: it is of a kind that we lack.
fn slot(value: &Value) -> Option<Result<Slot, String>> {
    let area = &value["area"];
    let small = |value: &Value, most: u64| value.as_u64().filter(|n| (1..=most).contains(n));
    let kdf = match kdf(&value["kdf"])? {
        Ok(kdf) => kdf,
        Err(why) => return Some(Err(why)),
    };
    let hash = match Hash::named(value["af"]["hash"].as_str()?) {
        Ok(hash) => hash,
        Err(why) => return Some(Err(why)),
    };
    Some(
        text(area["encryption"].as_str()?.as_bytes()).and_then(|cipher| {
            Ok(Slot {
                kdf,
                key_len: small(&area["key_size"], 512).ok_or("has an odd key size")? as usize,
                volume_key_len: small(&value["key_size"], 512).ok_or("has an odd key size")?
                    as usize,
                cipher,
                at: number(&area["offset"]).ok_or("lacks the place of a key")?,
                stripes: small(&value["af"]["stripes"], 16 << 10).ok_or("has odd stripes")?
                    as usize,
                hash,
            })
        }),
    )
}

fn kdf(value: &Value) -> Option<Result<Kdf, String>> {
    let salt = base64(value["salt"].as_str()?)?;
    let word = |key: &str| u32::try_from(value[key].as_u64()?).ok();
    let argon = |kind| {
        Some(Ok(Kdf::Argon2 {
            kind,
            salt: salt.clone(),
            time: word("time")?,
            memory: word("memory")?,
            lanes: word("cpus")?,
        }))
    };
    match value["type"].as_str()? {
        "pbkdf2" => Some(Hash::named(value["hash"].as_str()?).and_then(|hash| {
            Ok(Kdf::Pbkdf2 {
                hash,
                salt: salt.clone(),
                iterations: word("iterations").ok_or("lacks a number of iterations")?,
            })
        })),
        "argon2i" => argon(argon2::Algorithm::Argon2i),
        "argon2id" => argon(argon2::Algorithm::Argon2id),
        other => Some(Err(format!("uses {other}, which is not supported"))),
    }
}

fn base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let (mut bits, mut have) = (0u32, 0);
    for c in text.trim_end_matches('=').bytes() {
        let six = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(six);
        have += 6;
        if have >= 8 {
            have -= 8;
            bytes.push((bits >> have) as u8);
        }
    }
    Some(bytes)
}
