//! Messages of Sun's RPC in a stream of bytes (RFC 5531), as far as who carries them has to know
//! them: which is an answer to which, whom a call says that it is from, and which may take long.

use tane_images::Identity;

/// Of the mark before a fragment: no other follows of this record.
const LAST: u32 = 1 << 31;
/// Bytes of a record. Linux's client has asked for answers of 1 MiB and what is around it.
const MOST: usize = 4 << 20;
const CALL: u32 = 0;
const REPLY: u32 = 1;
const AUTH_SYS: u32 = 1;
/// Of a reply that is accepted: it was done; the server could not do it.
const SUCCESS: u32 = 0;
const SYSTEM_ERR: u32 = 5;
const NFS4ERR_NOSPC: u32 = 28;
/// The procedure of NFS 4 that has all others in it.
const COMPOUND: u32 = 1;

/// What a record is; both have the number that the call was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    Call(u32),
    Reply(u32),
}

/// What is to be known of what a call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Plain,
    /// A server may have to write all that it has, or copy a file.
    Slow,
    /// A client of it begins to be one: EXCHANGE_ID, CREATE_SESSION.
    Beginning,
}

/// It is no record, or one that is too long.
#[derive(Debug, PartialEq, Eq)]
pub struct Nonsense;

impl From<Nonsense> for String {
    fn from(_: Nonsense) -> String {
        String::from("the server does not keep to the protocol")
    }
}

/// Take the next record of a stream, without its marks. `fill`: read that much.
pub fn take<E: From<Nonsense>>(
    record: &mut Vec<u8>,
    mut fill: impl FnMut(&mut [u8]) -> Result<(), E>,
) -> Result<(), E> {
    record.clear();
    loop {
        let mut mark = [0; 4];
        fill(&mut mark)?;
        let mark = u32::from_be_bytes(mark);
        let (begin, len) = (record.len(), (mark & !LAST) as usize);
        // An empty fragment leads nowhere, and one after the other would never end.
        if len == 0 || begin + len > MOST {
            return Err(Nonsense.into());
        }
        record.resize(begin + len, 0);
        fill(&mut record[begin..])?;
        if mark & LAST != 0 {
            return Ok(());
        }
    }
}

/// The record as one fragment, with its mark.
pub fn marked(record: &[u8]) -> Vec<u8> {
    let mark = LAST | record.len() as u32;
    [&mark.to_be_bytes()[..], record].concat()
}

pub fn head(record: &[u8]) -> Result<Head, Nonsense> {
    let mut xdr = Xdr(record);
    match (xdr.number(), xdr.number()) {
        (Some(number), Some(CALL)) => Ok(Head::Call(number)),
        (Some(number), Some(REPLY)) => Ok(Head::Reply(number)),
        _ => Err(Nonsense),
    }
}

/// The answer to a call that it could not be done, which is EIO to who has made it.
///
/// With the same error of one that begins Linux's client waits for another attempt, and what
/// mounts waits for the client, for ever; a server that has no room for one is final.
pub fn failure(number: u32, class: Class) -> Vec<u8> {
    let words = match class {
        // A compound of which no operation was done.
        Class::Beginning => &[number, REPLY, 0, 0, 0, SUCCESS, NFS4ERR_NOSPC, 0, 0][..],
        _ => &[number, REPLY, 0, 0, 0, SYSTEM_ERR],
    };
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// A call as if this one made it, if it says who makes it.
pub fn from_identity(record: &[u8], identity: &Identity) -> Option<Vec<u8>> {
    let mut xdr = Xdr(record);
    xdr.skip(6 * 4)?;
    let before = record.len() - xdr.0.len();
    if xdr.number()? != AUTH_SYS {
        return None;
    }
    let mut old = Xdr(xdr.opaque()?);
    let whole = old.0;
    old.number()?;
    old.opaque()?;
    // When it is from, and which machine.
    let begin = &whole[..whole.len() - old.0.len()];
    let groups = identity.groups.len() as u32;
    let numbers = [identity.uid, identity.gid, groups];
    let numbers = numbers.iter().chain(&identity.groups);
    let numbers: Vec<u8> = numbers.flat_map(|n| n.to_be_bytes()).collect();
    let len = (begin.len() + numbers.len()) as u32;
    Some(
        [
            &record[..before],
            &AUTH_SYS.to_be_bytes(),
            &len.to_be_bytes(),
            begin,
            &numbers,
            xdr.0,
        ]
        .concat(),
    )
}

pub fn class(record: &[u8]) -> Class {
    class_of_operations(record).unwrap_or(Class::Plain)
}

/// None: it ends before that is known.
fn class_of_operations(record: &[u8]) -> Option<Class> {
    let mut xdr = Xdr(record);
    xdr.skip(5 * 4)?;
    if xdr.number()? != COMPOUND {
        return None;
    }
    for _ in ["credentials", "verifier"] {
        xdr.number()?;
        xdr.opaque()?;
    }
    let _tag = xdr.opaque()?;
    let _version = xdr.number()?;
    for _ in 0..xdr.number()? {
        match xdr.number()? {
            // PUTFH
            22 => drop(xdr.opaque()?),
            // GETFH, PUTROOTFH, RESTOREFH, SAVEFH
            10 | 24 | 31 | 32 => {}
            // SEQUENCE
            53 => xdr.skip(32)?,
            // COMMIT; ALLOCATE, COPY, DEALLOCATE, CLONE
            5 | 59 | 60 | 62 | 71 => return Some(Class::Slow),
            // EXCHANGE_ID, CREATE_SESSION
            42 | 43 => return Some(Class::Beginning),
            _ => return None,
        }
    }
    None
}

/// What is still to be read of a message: RFC 4506.
struct Xdr<'a>(&'a [u8]);

impl<'a> Xdr<'a> {
    fn skip(&mut self, len: usize) -> Option<()> {
        self.0 = self.0.get(len..)?;
        Some(())
    }

    fn number(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*word))
    }

    fn opaque(&mut self) -> Option<&'a [u8]> {
        let len = self.number()? as usize;
        let bytes = self.0.get(..len)?;
        self.skip(len.checked_next_multiple_of(4)?)?;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    /// As Linux's client makes it, by root of the machine "tane".
    fn call(operations: &[u32]) -> Vec<u8> {
        let name = u32::from_be_bytes(*b"tane");
        let credentials = [AUTH_SYS, 24, 77, 4, name, 0, 0, 0];
        let head = [9, CALL, 2, 100_003, 4, COMPOUND];
        bytes(&[&head[..], &credentials, &[0, 0], &[0, 2], operations].concat())
    }

    fn all(stream: &[u8]) -> (Vec<Vec<u8>>, String) {
        let (mut found, mut left, mut record) = (Vec::new(), stream, Vec::new());
        loop {
            let taken = take(&mut record, |room: &mut [u8]| {
                let short = || String::from("short");
                let (now, rest) = left.split_at_checked(room.len()).ok_or_else(short)?;
                room.copy_from_slice(now);
                left = rest;
                Ok(())
            });
            match taken {
                Ok(()) => found.push(record.clone()),
                Err(why) => return (found, why),
            }
        }
    }

    #[test]
    fn records_are_whole_however_many_fragments_they_come_in() {
        let record = call(&[0]);
        let (one, two) = record.split_at(20);
        let mut cut = bytes(&[one.len() as u32]);
        cut.extend_from_slice(one);
        cut.extend(marked(two));
        let stream = [marked(&record), cut, marked(&failure(7, Class::Plain))].concat();
        let (found, end) = all(&stream);
        assert_eq!(found, [record.clone(), record, failure(7, Class::Plain)]);
        assert_eq!(end, "short");
        assert_eq!(head(&found[0]), Ok(Head::Call(9)));
        assert_eq!(head(&found[2]), Ok(Head::Reply(7)));
    }

    #[test]
    fn what_is_empty_or_has_no_end_is_no_record() {
        for mark in [0, LAST, LAST | (MOST as u32 + 1), MOST as u32 + 1] {
            let (found, end) = all(&[bytes(&[mark]), vec![0; 100]].concat());
            assert!(found.is_empty() && end.contains("protocol"), "{end}");
        }
        let half = [bytes(&[MOST as u32 / 2 + 4]), vec![0; MOST / 2 + 4]].concat();
        let (found, end) = all(&[half.clone(), half].concat());
        assert!(found.is_empty() && end.contains("protocol"), "{end}");
        assert_eq!(head(&[0; 7]), Err(Nonsense));
        assert_eq!(head(&bytes(&[1, 2])), Err(Nonsense));
    }

    #[test]
    fn a_call_is_from_whom_it_is_told_to_be_and_the_rest_is_as_it_was() {
        let groups = vec![4, 24];
        let identity = Identity {
            uid: 1000,
            gid: 100,
            groups,
        };
        let record = call(&[1, 53]);
        let found = from_identity(&record, &identity).expect("it says who makes it");
        let begin = 6 * 4;
        assert_eq!(found[..begin], record[..begin]);
        let credentials = bytes(&[AUTH_SYS, 32, 77, 4]);
        let numbers = bytes(&[1000, 100, 2, 4, 24]);
        let rest = &record[begin + 8 * 4..];
        let expected = [&credentials[..], b"tane", &numbers, rest].concat();
        assert_eq!(found[begin..], expected);
        // A NULL call is from nobody.
        let record = bytes(&[9, CALL, 2, 100_003, 4, 0, 0, 0, 0, 0]);
        assert_eq!(from_identity(&record, &identity), None);
        for len in 0..record.len() {
            assert_eq!(from_identity(&record[..len], &identity), None);
        }
    }

    #[test]
    fn calls_that_may_take_long_and_those_that_begin_are_known_by_their_operations() {
        let sequence = [53, 1, 2, 3, 4, 5, 6, 7, 8];
        let handle = [22, 5, 0x0102_0304, 0x0500_0000];
        let of = |last: &[u32]| call(&[&[3][..], &sequence, &handle, last].concat());
        for (last, class_of_it) in [
            (5, Class::Slow),
            (71, Class::Slow),
            (25, Class::Plain),
            (9, Class::Plain),
        ] {
            assert_eq!(class(&of(&[last, 0, 0, 0])), class_of_it, "{last}");
        }
        assert_eq!(class(&call(&[1, 43, 0, 0])), Class::Beginning);
        let whole = of(&[5]);
        for len in 0..whole.len() {
            assert_eq!(class(&whole[..len]), Class::Plain);
        }
        assert_eq!(class(&call(&[u32::MAX, 10, 10])), Class::Plain);
    }
}
