//! User mode: a kernel's network through ordinary sockets of the host's, which takes no
//! privileges and no helper.
//!
//! ```text
//! options.rs    what is wanted: UserNetwork, Forward; the addresses inside
//! rule.rs       a destination in a list
//! policy.rs     who may be reached
//! message.rs    gateway and broker
//! broker.rs     makes sockets, by the policy
//!   host.rs       system calls for that
//!   resolve.rs    asks the host's resolvers
//!   dns.rs        what they say
//! ```
//!
//! The gateway, which ends flows inside the kernel and carries their bytes to and from
//! these sockets, is `tane/src/net/gateway`. It asks the broker for each socket, since it
//! may be somebody else by then: what runs in the kernel is in one process with it. The
//! broker may be a thread there, or a process of its own.

mod broker;
pub mod dns;
mod host;
mod message;
mod options;
mod policy;
mod resolve;
mod rule;

pub use broker::Broker;
pub use message::{line, receive, Answer, Request, LONGEST_NAME_MESSAGE, ROOM};
pub use options::{addresses, Forward, NoForward, UserNetwork};
pub use policy::Policy;
pub use rule::{Network, NoRule, Rule, Target};
