//! Calls, of routines, functions and slots, and returns.

use super::{Routine, Type, Typing, ARGUMENTS};
use crate::form::Flow;
use crate::instruction::Instruction;
use crate::rule::{Refusal, Rule};

impl Typing<'_> {
    /// T12: the first instruction of an export. The routine leaves all registers but rax as
    /// they are.
    pub(super) fn begin(&mut self, it: &Instruction) -> Result<(), Refusal> {
        let target = it.target(self.at as usize) as u32;
        if it.flow != Flow::Call || self.runtime.routine(target) != Some(Routine::Reset) {
            let what = "an export begins with a call of the first routine";
            return self.refuse(Rule::Entry, what);
        }
        self.state.set(0, Type::Unknown);
        Ok(())
    }

    /// T9: a routine, or a function with what it takes.
    pub(super) fn call(&mut self, target: u32) -> Result<(), Refusal> {
        let given = self.state.get(0);
        let result = match (self.runtime.routine(target), given) {
            (Some(Routine::New), Type::Constant(bytes))
                if bytes % 8 == 0 && (8..=4096).contains(&bytes) =>
            {
                Type::Raw(bytes)
            }
            (Some(Routine::New), _) => {
                return self.refuse(Rule::Call, "rax is no constant size of an object");
            }
            (Some(Routine::NewWords | Routine::NewBytes), _) if !given.is_value() => {
                return self.refuse(Rule::Call, "rax is no number of elements");
            }
            (Some(Routine::NewWords), _) => Type::RawArray(8),
            (Some(Routine::NewBytes), _) => Type::RawArray(1),
            (Some(Routine::Import(i)), _) => {
                let signature = self.imports[i];
                self.gives(&signature.arguments())?;
                signature.result
            }
            (Some(Routine::Reset), _) => {
                return self.refuse(Rule::Entry, "only the host begins anew");
            }
            (None, _) => match self.starts(target) {
                Some(_) if self.is_entry(target) => {
                    return self.refuse(Rule::Entry, "only the host begins anew");
                }
                Some(function) => self.takes(self.signature(function))?,
                None => return self.refuse(Rule::Call, "a call of what is no function"),
            },
        };
        self.state.called(result);
        Ok(())
    }

    /// T9: by a slot that a register holds.
    pub(super) fn call_by_slot(&mut self, it: &Instruction) -> Result<(), Refusal> {
        let Some((_, Some((index, _)), ..)) = it.window() else {
            return self.refuse(Rule::Call, "imports are called by their routines");
        };
        let Type::Function(signature) = self.state.get(index) else {
            return self.refuse(Rule::Call, "a call of what is no function");
        };
        let result = self.takes(&self.section.signatures[usize::from(signature)])?;
        self.state.called(result);
        Ok(())
    }

    /// T9: what a signature takes is given; what it gives.
    fn takes(&self, (arguments, result): &(Vec<Type>, Type)) -> Result<Type, Refusal> {
        self.gives(arguments).map(|()| *result)
    }

    /// T9: the registers of arguments hold these.
    fn gives(&self, arguments: &[Type]) -> Result<(), Refusal> {
        for (register, needed) in ARGUMENTS.iter().zip(arguments) {
            let known = self.state.get(*register);
            if !self.is(known, *needed) {
                let what = format!("{known} where the function takes {needed}");
                return self.refuse(Rule::Call, what);
            }
        }
        Ok(())
    }

    /// T10.
    pub(super) fn returns(&self) -> Result<(), Refusal> {
        let (_, result) = self.signature(self.function);
        let known = self.state.get(0);
        match self.is(known, *result) {
            true => Ok(()),
            false => self.refuse(Rule::Result, format!("{known} where {result} is promised")),
        }
    }
}
