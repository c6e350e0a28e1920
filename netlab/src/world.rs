//! The clock: kernels, frames, and whose turn it is.
//!
//! A discrete-event simulation whose events are Linux's: each member runs until it is idle, and
//! says when its next timer is; the clock goes to the earliest timer, frame or appointment. What is
//! at the same time comes in the order of the members, then in that of sending.

use crate::cable::{Cable, Clock, Frames};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tane::net::Wire;
use tane::Kernel;

/// What a member's kernel says instead of doing what it was to: the member, and the error.
pub type Turn<T = ()> = Result<T, (usize, tane::Error)>;

/// Kernels that share a clock. One thread has it, and makes all calls of theirs.
#[derive(Default)]
pub struct World {
    members: Vec<Member>,
    /// When each member is next due, and who that is.
    timers: BTreeSet<(u64, usize)>,
    /// Who ran since somebody asked.
    ran: BTreeSet<usize>,
    frames: Arc<Frames>,
    clock: Clock,
    /// How often the clock went on.
    steps: u64,
}

struct Member {
    kernel: Kernel,
    timer: Option<u64>,
    /// How late it was there when it last ran.
    ran_at: Option<u64>,
}

impl World {
    /// A kernel joins whose time is led. It stands until the world begins.
    pub fn join(&mut self, kernel: Kernel) {
        self.members.push(Member {
            kernel,
            timer: None,
            ran_at: None,
        });
    }

    /// How many have joined.
    pub fn members(&self) -> usize {
        self.members.len()
    }

    pub fn kernel(&self, member: usize) -> &Kernel {
        &self.members[member].kernel
    }

    /// A cable between two members, and its ends, for their cards.
    pub fn cable(&self, members: [usize; 2]) -> (Arc<Cable>, [Arc<dyn Wire>; 2]) {
        Cable::new(members, &self.frames, &self.clock)
    }

    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    pub fn now(&self) -> u64 {
        self.clock.now()
    }

    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Frames that were ever sent.
    pub fn frames(&self) -> u64 {
        self.frames.count()
    }

    /// All members' clocks become one: it is as late everywhere as where it is latest.
    pub fn begin(&mut self) -> Turn {
        let mut latest = self.now();
        for (index, member) in self.members.iter().enumerate() {
            let time = member.kernel.time().map_err(|e| (index, e))?;
            latest = latest.max(nanoseconds(time));
        }
        self.clock.set(latest);
        (0..self.members.len()).try_for_each(|member| self.run(member))
    }

    /// When something happens next.
    pub fn next(&self) -> Option<u64> {
        let timer = self.timers.first().map(|(time, _)| *time);
        let next = [timer, self.frames.next()].into_iter().flatten().min();
        next.map(|next| next.max(self.now()))
    }

    /// Have it be so late, which is not later than [`World::next`]: what is due then happens.
    pub fn pass(&mut self, time: u64) -> Turn {
        self.clock.set(time);
        self.steps += 1;
        let due = self.timers.range(..=(time, usize::MAX));
        let due: BTreeSet<usize> = due.map(|(_, member)| *member).collect();
        for member in due {
            self.run(member)?;
        }
        while let Some(frame) = self.frames.take(time) {
            // What else is due there comes first.
            self.catch_up(frame.member())?;
            frame.deliver();
            self.run(frame.member())?;
        }
        Ok(())
    }

    /// Before a call of a member: it is now there, too, and all that was due has been done.
    pub fn catch_up(&mut self, index: usize) -> Turn {
        match self.members[index].ran_at == Some(self.now()) {
            true => Ok(()),
            false => self.run(index),
        }
    }

    /// A member's turn, after a call of it: it runs until it is idle.
    pub fn run(&mut self, index: usize) -> Turn {
        let time = self.now();
        let now = Duration::from_nanos(time);
        let member = &mut self.members[index];
        let passed = member.kernel.pass_time_to(now);
        let timer = passed.and_then(|()| member.kernel.next_timer());
        let timer = timer.map_err(|e| (index, e))?.map(nanoseconds);
        member.ran_at = Some(time);
        self.ran.insert(index);
        if timer == member.timer {
            return Ok(());
        }
        if let Some(before) = std::mem::replace(&mut member.timer, timer) {
            self.timers.remove(&(before, index));
        }
        self.timers.extend(timer.map(|timer| (timer, index)));
        Ok(())
    }

    /// Who ran since this was asked last.
    pub fn take_ran(&mut self) -> BTreeSet<usize> {
        std::mem::take(&mut self.ran)
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
