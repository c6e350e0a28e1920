//! What two processes say to each other of this: who meets the images is in a jail, and
//! nothing that it says is taken for more than it is.

use crate::bench::Outcome;
use crate::calls::{Call, Names};
use crate::sparse::{Block, BLOCK};
use std::io::{self, Read, Write};

/// No message is longer.
const LONGEST: usize = 256 << 20;
/// Nor has more of anything, or longer texts.
const MOST: usize = 1 << 16;
const TEXT: usize = 1 << 20;

/// What is to be met.
#[derive(Debug, Default)]
pub struct Order {
    /// Blocks in which it differs.
    pub blocks: Vec<(u64, Box<Block>)>,
    /// What is to be done.
    pub calls: Vec<Call>,
}

fn send(to: &mut impl Write, message: &[u8]) -> io::Result<()> {
    to.write_all(&(message.len() as u64).to_le_bytes())?;
    to.write_all(message)
}

fn receive(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut len = [0; 8];
    from.read_exact(&mut len)?;
    let len = u64::from_le_bytes(len) as usize;
    if len > LONGEST {
        return Err(nonsense());
    }
    let mut message = vec![0; len];
    from.read_exact(&mut message)?;
    Ok(message)
}

fn nonsense() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a message that makes no sense")
}

fn put(message: &mut Vec<u8>, bytes: &[u8]) {
    message.extend((bytes.len() as u32).to_le_bytes());
    message.extend(bytes);
}

/// What is left of a message.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, n: usize) -> io::Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n).ok_or_else(nonsense)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| nonsense())
    }

    fn number(&mut self) -> io::Result<usize> {
        Ok(u32::from_le_bytes(self.array()?) as usize)
    }

    fn count(&mut self) -> io::Result<usize> {
        self.number().and_then(|n| match n <= MOST {
            true => Ok(n),
            false => Err(nonsense()),
        })
    }

    fn bytes(&mut self) -> io::Result<&'a [u8]> {
        let len = self.number()?;
        match len <= TEXT {
            true => self.take(len),
            false => Err(nonsense()),
        }
    }

    fn text(&mut self) -> io::Result<String> {
        Ok(String::from_utf8_lossy(self.bytes()?).into_owned())
    }
}

fn calls_of(text: &str) -> io::Result<Vec<Call>> {
    let calls = text.lines().map(Call::parse);
    calls.collect::<Option<_>>().ok_or_else(nonsense)
}

/// Lines of calls.
pub fn lines(calls: &[Call]) -> String {
    calls.iter().map(|call| format!("{call}\n")).collect()
}

/// Ask for something to be met.
pub fn ask(to: &mut impl Write, blocks: &[(u64, &Block)], calls: &[Call]) -> io::Result<()> {
    let mut message = Vec::with_capacity(blocks.len() * (BLOCK as usize + 8) + 4096);
    message.extend((blocks.len() as u32).to_le_bytes());
    for (number, block) in blocks {
        message.extend(number.to_le_bytes());
        message.extend(&block[..]);
    }
    put(&mut message, lines(calls).as_bytes());
    send(to, &message)
}

/// What is asked for; None: nobody asks any more.
pub fn order(from: &mut impl Read) -> io::Result<Option<Order>> {
    let message = match receive(from) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        received => received?,
    };
    let mut rest = Rest(&message);
    let count = rest.number()?;
    let mut order = Order::default();
    for _ in 0..count {
        let number = u64::from_le_bytes(rest.array()?);
        let block = Box::new(rest.array()?);
        order.blocks.push((number, block));
    }
    order.calls = calls_of(&rest.text()?)?;
    Ok(Some(order))
}

/// Tell what came of it, and whether there is more to come.
pub fn tell(to: &mut impl Write, outcome: &Outcome, goes_on: bool) -> io::Result<()> {
    let mut message = vec![u8::from(outcome.died.is_some()), u8::from(goes_on)];
    let cut = |text: &str| text.as_bytes()[..text.len().min(TEXT)].to_vec();
    put(
        &mut message,
        &cut(outcome.died.as_deref().unwrap_or_default()),
    );
    let warnings = &outcome.warnings[..outcome.warnings.len().min(MOST)];
    message.extend((warnings.len() as u32).to_le_bytes());
    for warning in warnings {
        put(&mut message, &cut(warning));
    }
    message.extend((outcome.results.len() as u32).to_le_bytes());
    for result in &outcome.results {
        message.extend(result.to_le_bytes());
    }
    message.extend((outcome.edges.len() as u32).to_le_bytes());
    for (edge, count) in &outcome.edges {
        message.extend(edge.to_le_bytes());
        message.push(*count);
    }
    send(to, &message)
}

/// What came of it, and whether there is more to come.
pub fn told(from: &mut impl Read) -> io::Result<(Outcome, bool)> {
    let message = receive(from)?;
    let mut rest = Rest(&message);
    let [died, goes_on] = rest.array()?;
    let words = rest.text()?;
    let mut outcome = Outcome {
        died: (died != 0).then_some(words),
        ..Outcome::default()
    };
    for _ in 0..rest.count()? {
        outcome.warnings.push(rest.text()?);
    }
    for _ in 0..rest.count()? {
        outcome.results.push(i32::from_le_bytes(rest.array()?));
    }
    for _ in 0..rest.count()? {
        let edge = u16::from_le_bytes(rest.array()?);
        let [count] = rest.array()?;
        outcome.edges.push((edge, count));
    }
    Ok((outcome, goes_on != 0))
}

/// What is said first: that there is a kernel, whether it counts its ways and what names
/// there are; or why not.
pub type Ready = Result<(bool, Names), String>;

/// Say it.
pub fn tell_ready(to: &mut impl Write, ready: &Ready) -> io::Result<()> {
    let mut message = Vec::new();
    match ready {
        Ok((counts, names)) => {
            message.push(if *counts { 2 } else { 1 });
            message.extend((names.0.len() as u32).to_le_bytes());
            names.0.iter().for_each(|name| put(&mut message, name));
        }
        Err(why) => {
            message.push(0);
            put(&mut message, why.as_bytes());
        }
    }
    send(to, &message)
}

/// Hear it.
pub fn ready(from: &mut impl Read) -> io::Result<Ready> {
    let message = receive(from)?;
    let mut rest = Rest(&message);
    let [kind] = rest.array()?;
    if kind == 0 {
        return Ok(Err(rest.text()?));
    }
    let mut names = Names::default();
    for _ in 0..rest.count()? {
        let name = rest.bytes()?.to_vec();
        if name.contains(&0) || name.len() > 4096 {
            return Err(nonsense());
        }
        names.0.push(name);
    }
    Ok(Ok((kind == 2, names)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls;

    #[test]
    fn what_is_said_is_what_is_heard_and_nothing_else() {
        let block = [7; BLOCK as usize];
        let mut wire = Vec::new();
        ask(&mut wire, &[(3, &block)], &calls::first(true)).expect("memory");
        let heard = order(&mut &wire[..]).expect("an order").expect("one");
        assert_eq!((heard.blocks[0].0, *heard.blocks[0].1), (3, block));
        assert_eq!(heard.calls, calls::first(true));
        assert!(order(&mut &[][..]).expect("no order").is_none());

        let outcome = Outcome {
            died: Some("panic".into()),
            warnings: vec!["fs/x.c:1 f".into()],
            results: vec![0, 5, 117],
            edges: vec![(1, 2), (u16::MAX, 255)],
        };
        let mut wire = Vec::new();
        tell(&mut wire, &outcome, true).expect("memory");
        let heard = told(&mut &wire[..]).expect("an outcome");
        assert_eq!(heard, (outcome, true));
        // Cut anywhere, or with any byte changed, it is an error or other words.
        for n in 0..wire.len() {
            assert!(told(&mut &wire[..n]).is_err());
            let mut other = wire.clone();
            other[n] ^= 0xff;
            let _ = told(&mut &other[..]);
        }
    }
}
