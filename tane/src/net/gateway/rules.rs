//! What nf_tables does with packets from inside: the first one of each connection waits
//! until the host has an answer, and all go to the gateway's sockets, whomever they are for.

use super::place::bytes;
use super::queue::{ECHOES, MARK_CLOSED, MARK_NO_HOST, MARK_NO_NETWORK, MARK_RESET, SYNS};
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::net::netlink::{attribute, nested, Message, Netlink};
use tane_net::user::addresses::*;

const NETLINK_NETFILTER: i32 = 12;
const SUBSYSTEM: u16 = 10;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NEW_TABLE: u16 = 0;
const NEW_CHAIN: u16 = 3;
const NEW_RULE: u16 = 6;
const NLM_F_CREATE: u16 = 0x400;
const NLM_F_APPEND: u16 = 0x800;
const NFPROTO_INET: u8 = 1;
const NF_INET_PRE_ROUTING: u32 = 0;
const NAME: &[u8] = b"tane\0";
/// The port of the sockets that take what is for any.
pub const PORT: u16 = 1;

const REGISTER: u32 = 1;
const META_MARK: u32 = 3;
const META_IIF: u32 = 4;
const META_NFPROTO: u32 = 15;
const META_L4PROTO: u32 = 16;
const BASE_NETWORK: u32 = 1;
const BASE_TRANSPORT: u32 = 2;
const EQUAL: u32 = 0;
const UNEQUAL: u32 = 1;
const VERDICT_ACCEPT: u32 = 1;
const REJECT_RESET: u32 = 1;
const REJECT_ICMPX: u32 = 2;

/// One step of a rule.
type Step = Vec<u8>;

fn number(kind: u16, value: u32) -> Vec<u8> {
    attribute(kind, &value.to_be_bytes())
}

fn step(name: &str, data: &[Vec<u8>]) -> Step {
    let name = attribute(1, &[name.as_bytes(), b"\0"].concat());
    nested(1, &[name, nested(2, data)])
}

fn meta(key: u32) -> Step {
    step("meta", &[number(1, REGISTER), number(2, key)])
}

fn payload(base: u32, offset: u32, length: u32) -> Step {
    let data = [
        number(1, REGISTER),
        number(2, base),
        number(3, offset),
        number(4, length),
    ];
    step("payload", &data)
}

fn compare(how: u32, value: &[u8]) -> Step {
    let value = nested(3, &[attribute(1, value)]);
    step("cmp", &[number(1, REGISTER), number(2, how), value])
}

fn mask(value: u8) -> Step {
    let data = |kind, byte| nested(kind, &[attribute(1, &[byte])]);
    let registers = [number(1, REGISTER), number(2, REGISTER), number(3, 1)];
    let mut all = registers.to_vec();
    all.extend([data(4, value), data(5, 0)]);
    step("bitwise", &all)
}

fn accept() -> Step {
    let verdict = nested(2, &[number(1, VERDICT_ACCEPT)]);
    step("immediate", &[number(1, 0), nested(2, &[verdict])])
}

fn queue(which: u16) -> Step {
    let numbers = [(1, which), (2, 1), (3, 0)];
    let numbers = numbers.map(|(kind, value)| attribute(kind, &value.to_be_bytes()));
    step("queue", &numbers)
}

fn reject(kind: u32, code: u8) -> Step {
    step("reject", &[number(1, kind), attribute(2, &[code])])
}

fn to_sockets() -> [Step; 2] {
    let port = nested(2, &[attribute(1, &PORT.to_be_bytes())]);
    let load = step("immediate", &[number(1, REGISTER), port]);
    [load, step("tproxy", &[number(1, 0), number(3, REGISTER)])]
}

fn family_is(family: i32) -> [Step; 2] {
    [meta(META_NFPROTO), compare(EQUAL, &[family as u8])]
}

fn protocol_is(protocol: i32) -> [Step; 2] {
    [meta(META_L4PROTO), compare(EQUAL, &[protocol as u8])]
}

fn to(how: u32, address: impl Into<std::net::IpAddr>) -> Vec<Step> {
    let bytes = bytes(address);
    let (family, offset) = match bytes.len() {
        4 => (libc::AF_INET, 16),
        _ => (libc::AF_INET6, 24),
    };
    let mut steps = family_is(family).to_vec();
    steps.push(payload(BASE_NETWORK, offset, bytes.len() as u32));
    steps.push(compare(how, &bytes));
    steps
}

/// Rules that both chains begin with: they are about what comes from inside, and is not
/// for who resolves names.
fn common(index: u32) -> Vec<Vec<Step>> {
    let other = vec![
        meta(META_IIF),
        compare(UNEQUAL, &index.to_ne_bytes()),
        accept(),
    ];
    let mut names = [to(EQUAL, NAMES4), to(EQUAL, NAMES6)];
    names.iter_mut().for_each(|steps| steps.push(accept()));
    [vec![other], names.to_vec()].concat()
}

/// Whatever begins waits in a queue.
fn hold(index: u32) -> Vec<Vec<Step>> {
    const FLAGS: u32 = 13;
    // Of FIN, SYN, RST and ACK the second alone.
    let syn = [mask(0x17), compare(EQUAL, &[0x02]), queue(SYNS)];
    let syn = [
        &protocol_is(libc::IPPROTO_TCP)[..],
        &[payload(BASE_TRANSPORT, FLAGS, 1)],
        &syn,
    ];
    let echo = |to: Vec<Step>, protocol, kind| {
        let kind = [
            payload(BASE_TRANSPORT, 0, 1),
            compare(EQUAL, &[kind]),
            queue(ECHOES),
        ];
        [&to[..], &protocol_is(protocol), &kind].concat()
    };
    let mut rules = common(index);
    rules.push(syn.concat());
    rules.push(echo(to(UNEQUAL, GATEWAY4), libc::IPPROTO_ICMP, 8));
    rules.push(echo(to(UNEQUAL, GATEWAY6), libc::IPPROTO_ICMPV6, 128));
    rules
}

/// What has waited goes on, or back with an error.
fn end(index: u32) -> Vec<Vec<Step>> {
    let mut rules = common(index);
    for (mark, kind, code) in [
        (MARK_RESET, REJECT_RESET, 0),
        (MARK_NO_NETWORK, REJECT_ICMPX, 0),
        (MARK_NO_HOST, REJECT_ICMPX, 2),
        (MARK_CLOSED, REJECT_ICMPX, 3),
    ] {
        let marked = [meta(META_MARK), compare(EQUAL, &mark.to_ne_bytes())];
        rules.push([&marked[..], &[reject(kind, code)]].concat());
    }
    rules.push(to_sockets().to_vec());
    rules
}

fn message(kind: u16, flags: u16, attributes: &[Vec<u8>]) -> Message {
    let mut body = vec![NFPROTO_INET, 0, 0, 0];
    body.extend(attributes.concat());
    Message::new(SUBSYSTEM << 8 | kind, flags | NLM_F_CREATE, &body)
}

fn around(kind: u16) -> Message {
    let [high, low] = SUBSYSTEM.to_be_bytes();
    Message::new(kind, 0, &[0, 0, high, low])
}

fn chain(name: &[u8], priority: i32, rules: Vec<Vec<Step>>) -> Vec<Message> {
    let hook = nested(
        4,
        &[
            number(1, NF_INET_PRE_ROUTING),
            attribute(2, &priority.to_be_bytes()),
        ],
    );
    let of_table = attribute(1, NAME);
    let chain = [
        of_table.clone(),
        attribute(3, name),
        hook,
        attribute(7, b"filter\0"),
    ];
    let mut messages = vec![message(NEW_CHAIN, 0, &chain)];
    messages.extend(rules.into_iter().map(|steps| {
        let rule = [of_table.clone(), attribute(2, name), nested(4, &steps)];
        message(NEW_RULE, NLM_F_APPEND, &rule)
    }));
    messages
}

/// Make them in the calling thread's namespace, for packets of this interface.
pub fn make(kernel: &Kernel, index: u32) -> Result<()> {
    let failed = |errno| {
        let error = Error::new(errno, "make the gateway's rules");
        match errno {
            libc::ENOENT | libc::EPROTONOSUPPORT | libc::EOPNOTSUPP => {
                error.with_text("the image has no nf_tables with TPROXY and queues (`default` has)")
            }
            _ => error,
        }
    };
    let mut messages = vec![
        around(BATCH_BEGIN),
        message(NEW_TABLE, 0, &[attribute(1, NAME)]),
    ];
    messages.extend(chain(b"hold\0", -160, hold(index)));
    messages.extend(chain(b"end\0", -150, end(index)));
    messages.push(around(BATCH_END));
    let netlink = Netlink::open_for(kernel, NETLINK_NETFILTER).map_err(failed)?;
    netlink.tell_together(messages).map_err(failed)
}
