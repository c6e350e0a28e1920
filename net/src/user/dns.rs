//! Messages of DNS (RFC 1035), as far as who relays them looks at them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const HEADER: usize = 12;
/// Jumps inside a name; each leads towards the front, so it is a bound of time alone.
const JUMPS: usize = 32;
/// Records of an answer that are looked at.
const RECORDS: usize = 512;
const TYPE_A: u16 = Kind::A as u16;
const TYPE_CNAME: u16 = 5;
const TYPE_AAAA: u16 = Kind::Aaaa as u16;
const CLASS_INTERNET: u16 = 1;
/// There is no such name.
pub const NO_NAME: u8 = 3;

/// Which addresses of a name are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Kind {
    /// Those of IPv4.
    A = 1,
    /// Those of IPv6.
    Aaaa = 28,
}

/// Query refused.
pub const REFUSED: u8 = 5;
/// Nobody answers.
pub const FAILED: u8 = 2;

/// What a query asks for.
#[derive(Debug, PartialEq, Eq)]
pub struct Question {
    /// In small letters, without a dot at the end.
    pub name: String,
    kind: u16,
    class: u16,
    /// Where the question ends.
    end: usize,
}

fn word(message: &[u8], at: usize) -> Option<u16> {
    let bytes = message.get(at..at + 2)?;
    Some(u16::from_be_bytes([bytes[0], bytes[1]]))
}

/// The name at this place, and where what is behind it begins. `None` also for names that
/// as a text would be other names.
fn name(message: &[u8], mut at: usize) -> Option<(String, usize)> {
    let (mut text, mut end) = (String::new(), None);
    for _ in 0..JUMPS {
        loop {
            let length = usize::from(*message.get(at)?);
            match length {
                0 => return Some((text, end.unwrap_or(at + 1))),
                1..64 => {}
                192.. => break,
                _ => return None,
            }
            if !text.is_empty() {
                text.push('.');
            }
            for byte in message.get(at + 1..at + 1 + length)? {
                if !byte.is_ascii_graphic() || *byte == b'.' {
                    return None;
                }
                text.push(byte.to_ascii_lowercase().into());
            }
            if text.len() > 255 {
                return None;
            }
            at += 1 + length;
        }
        end = end.or(Some(at + 2));
        let to = usize::from(word(message, at)? & 0x3fff);
        if to >= at {
            return None;
        }
        at = to;
    }
    None
}

/// The question of a message that has one. `is_answer`: of an answer, and not of a query.
fn ask(message: &[u8], is_answer: bool) -> Option<Question> {
    let (flags, count) = (word(message, 2)?, word(message, 4)?);
    // Other operations than queries change servers.
    if flags >> 15 != u16::from(is_answer) || flags & 0x7800 != 0 || count != 1 {
        return None;
    }
    let (name, at) = name(message, HEADER)?;
    Some(Question {
        name,
        kind: word(message, at)?,
        class: word(message, at + 2)?,
        end: at + 4,
    })
}

/// Ask for the addresses of a name; `None`: no name is written so.
pub fn query(name: &str, kind: Kind, number: u16) -> Option<Vec<u8>> {
    let name = name.strip_suffix('.').unwrap_or(name);
    // With recursion; one question.
    let [high, low] = number.to_be_bytes();
    let mut query = vec![high, low, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        if !(1..64).contains(&label.len()) || !label.bytes().all(|byte| byte.is_ascii_graphic()) {
            return None;
        }
        query.push(label.len() as u8);
        query.extend(label.bytes());
    }
    query.push(0);
    query.extend((kind as u16).to_be_bytes());
    query.extend(CLASS_INTERNET.to_be_bytes());
    // RFC 1035: a name has at most 255 bytes.
    (query.len() <= HEADER + 255 + 4).then_some(query)
}

/// Whether an answer had no room for all of it, and is to be asked for by TCP.
pub fn is_cut(answer: &[u8]) -> bool {
    answer.get(2).is_some_and(|flags| flags & 2 != 0)
}

/// What an answer says of itself: 0 that it has what there is, [`NO_NAME`], or that and why
/// the resolver does not tell.
pub fn code(answer: &[u8]) -> u8 {
    answer.get(3).map_or(FAILED, |flags| flags & 15)
}

/// What a query asks for; `None`: it is no query that can be relayed.
pub fn question(query: &[u8]) -> Option<Question> {
    ask(query, false)
}

/// Whether this is an answer to that query.
pub fn answers(answer: &[u8], query: &[u8]) -> bool {
    let same = match (ask(answer, true), question(query)) {
        (Some(a), Some(q)) => a == q,
        _ => false,
    };
    same && answer[..2] == query[..2]
}

/// An answer that says why there is none.
pub fn refusal(query: &[u8], question: &Question, code: u8) -> Vec<u8> {
    let mut answer = query[..question.end].to_vec();
    // An answer; whether recursion is wanted stays, and it is available.
    answer[2] = 0x80 | answer[2] & 0x01;
    answer[3] = 0x80 | code;
    answer[4..HEADER].copy_from_slice(&[0, 1, 0, 0, 0, 0, 0, 0]);
    answer
}

/// The addresses that the name which was asked for stands for.
pub fn addresses(answer: &[u8]) -> Vec<IpAddr> {
    records(answer).unwrap_or_default()
}

fn records(answer: &[u8]) -> Option<Vec<IpAddr>> {
    let question = ask(answer, true)?;
    let (mut at, count) = (question.end, usize::from(word(answer, 6)?));
    let (mut aliases, mut owned) = (Vec::new(), Vec::new());
    for _ in 0..count.min(RECORDS) {
        let Some((owner, next)) = name(answer, at) else {
            break;
        };
        let Some(length) = word(answer, next + 8) else {
            break;
        };
        let data = next + 10;
        let Some(bytes) = answer.get(data..data + usize::from(length)) else {
            break;
        };
        match (word(answer, next)?, bytes) {
            (TYPE_CNAME, _) => aliases.push((owner, name(answer, data)?.0)),
            (TYPE_A, &[a, b, c, d]) => owned.push((owner, Ipv4Addr::new(a, b, c, d).into())),
            (TYPE_AAAA, bytes) => {
                if let Ok(bytes) = <[u8; 16]>::try_from(bytes) {
                    owned.push((owner, Ipv6Addr::from(bytes).into()));
                }
            }
            _ => {}
        }
        at = data + usize::from(length);
    }
    let mut names = vec![question.name];
    // A name more each time, so that circles end.
    while let Some(more) = aliases
        .iter()
        .find_map(|(from, to)| (names.contains(from) && !names.contains(to)).then(|| to.clone()))
    {
        names.push(more);
    }
    let of_name = |(owner, address): (String, IpAddr)| names.contains(&owner).then_some(address);
    Some(owned.into_iter().filter_map(of_name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(name: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        for label in name.split('.') {
            bytes.push(label.len() as u8);
            bytes.extend(label.as_bytes());
        }
        bytes.push(0);
        bytes
    }

    fn query(name: &str) -> Vec<u8> {
        let mut query = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        query.extend(labels(name));
        query.extend([0, 1, 0, 1]);
        query
    }

    fn record(owner: &[u8], kind: u8, data: &[u8]) -> Vec<u8> {
        let head = [0, kind, 0, 1, 0, 0, 0, 9, 0, data.len() as u8];
        [owner, &head, data].concat()
    }

    fn answer(name: &str, records: &[Vec<u8>]) -> Vec<u8> {
        let mut answer = query(name);
        answer[2] = 0x81;
        answer[7] = records.len() as u8;
        answer.extend(records.concat());
        answer
    }

    #[test]
    fn only_addresses_of_the_name_that_was_asked_for_are_taken() {
        let here = [0xc0, 12];
        let message = answer(
            "A.example.COM",
            &[
                record(&here, 5, &labels("b.example.net")),
                record(&labels("b.example.net"), 1, &[192, 0, 2, 1]),
                record(&labels("other.org"), 1, &[192, 0, 2, 66]),
                record(&here, 1, &[192, 0, 2, 2]),
            ],
        );
        assert_eq!(
            question(&query("A.example.COM")).unwrap().name,
            "a.example.com"
        );
        assert!(answers(&message, &query("a.example.com")));
        assert!(!answers(&message, &query("a.example.org")));
        let expected: [IpAddr; 2] = [[192, 0, 2, 1].into(), [192, 0, 2, 2].into()];
        assert_eq!(addresses(&message), expected);
    }

    #[test]
    fn aliases_in_a_circle_names_that_lead_forward_and_cut_messages_end() {
        let here = [0xc0, 12];
        let circle = [
            record(&here, 5, &labels("b")),
            record(&labels("b"), 5, &here),
        ];
        assert!(addresses(&answer("a", &circle)).is_empty());
        let mut message = answer("a", &[record(&[0xc0, 0xff], 1, &[1, 2, 3, 4])]);
        assert!(addresses(&message).is_empty());
        message = answer("a.b", &[record(&here, 1, &[1, 2, 3, 4])]);
        for length in 0..message.len() {
            addresses(&message[..length]);
            question(&message[..length]);
            answers(&message[..length], &message);
        }
    }

    #[test]
    fn a_query_asks_for_what_was_meant_and_what_is_no_name_is_none() {
        let asked = super::query("Example.com.", Kind::Aaaa, 0x1234).unwrap();
        let found = question(&asked).unwrap();
        assert_eq!(
            (found.name.as_str(), found.kind),
            ("example.com", TYPE_AAAA)
        );
        assert_eq!(found.end, asked.len());
        let long = "a.".repeat(128);
        for wrong in ["", ".", "a..b", ".a", "a b", "é", &"x".repeat(64), &long] {
            assert_eq!(super::query(wrong, Kind::A, 0), None, "{wrong}");
        }
        assert!(is_cut(&[0, 0, 0x83, 0x80]) && !is_cut(&[0, 0, 0x81, 0x80]));
        assert_eq!([&[0, 0, 0x81, 0x83][..], &[0]].map(code), [NO_NAME, FAILED]);
    }

    #[test]
    fn a_label_with_a_dot_is_no_name() {
        let mut query = query("axb.example.com");
        assert!(question(&query).is_some());
        query[14] = b'.';
        assert_eq!(question(&query), None);
    }

    #[test]
    fn a_refusal_is_an_answer_to_its_query() {
        let query = query("a.b");
        let refused = refusal(&query, &question(&query).unwrap(), REFUSED);
        assert!(answers(&refused, &query));
        assert_eq!(refused[3] & 15, REFUSED);
    }
}
