// SPDX-License-Identifier: GPL-2.0-only
/*
 * Registers of programs as x86-64's tracers and core dumps have them: struct
 * user_regs_struct and the area of XSAVE. They are here while the task is in the
 * kernel for a stop, or for its end.
 */
#include <linux/elf.h>
#include <linux/ptrace.h>
#include <linux/regset.h>
#include <linux/sched/task_stack.h>
#include <linux/slab.h>
#include <asm/machine.h>
#include <asm/processor-flags.h>
#include <asm/program.h>
#include <asm/user.h>
#include "regset.h"
#include "xstate.h"

#define REG(name)	offsetof(struct user_regs_struct, name)

/* All that are in a struct pt_regs come first, in its order. */
static_assert(REG(r15) == offsetof(struct pt_regs, r15));
static_assert(REG(orig_ax) == offsetof(struct pt_regs, orig_rax));
static_assert(REG(ss) == offsetof(struct pt_regs, ss));

/* Flags that a tracer may change: as arch/x86. */
#define FLAG_MASK	(X86_EFLAGS_CF | X86_EFLAGS_PF | X86_EFLAGS_AF | \
			 X86_EFLAGS_ZF | X86_EFLAGS_SF | X86_EFLAGS_TF | \
			 X86_EFLAGS_DF | X86_EFLAGS_OF | X86_EFLAGS_RF | \
			 X86_EFLAGS_AC | X86_EFLAGS_NT)

unsigned long tane_get_reg(struct task_struct *task, unsigned long offset)
{
	struct pt_regs *regs = task_pt_regs(task);

	switch (offset) {
	case REG(flags):
		/* The trap flag of a tracer is not the program's. */
		if (test_tsk_thread_flag(task, TIF_FORCED_TF))
			return regs->eflags & ~X86_EFLAGS_TF;
		return regs->eflags;
	case REG(fs_base):
		return task->thread.program->fs_base;
	case REG(gs_base):
	case REG(ds):
	case REG(es):
	case REG(fs):
	case REG(gs):
		return 0;
	}
	return *(unsigned long *)((void *)regs + offset);
}

static void tane_set_flags(struct task_struct *task, unsigned long value)
{
	struct pt_regs *regs = task_pt_regs(task);

	if (value & X86_EFLAGS_TF)
		clear_tsk_thread_flag(task, TIF_FORCED_TF);
	else if (test_tsk_thread_flag(task, TIF_FORCED_TF))
		value |= X86_EFLAGS_TF;
	regs->eflags = (regs->eflags & ~FLAG_MASK) | (value & FLAG_MASK);
}

/* Segments are those of 64-bit code, and the GS base is the virtual CPU's. */
int tane_set_reg(struct task_struct *task, unsigned long offset,
		 unsigned long value)
{
	switch (offset) {
	case REG(cs):
		return value == USER_CS ? 0 : -EIO;
	case REG(ss):
		return value == USER_DS ? 0 : -EIO;
	case REG(gs_base):
	case REG(ds):
	case REG(es):
	case REG(fs):
	case REG(gs):
		return value ? -EIO : 0;
	case REG(fs_base):
		if (value >= TASK_SIZE_MAX)
			return -EIO;
		task->thread.program->fs_base = value;
		return 0;
	case REG(flags):
		tane_set_flags(task, value);
		return 0;
	}
	*(unsigned long *)((void *)task_pt_regs(task) + offset) = value;
	return 0;
}

static int tane_general_get(struct task_struct *target,
			    const struct user_regset *regset, struct membuf to)
{
	unsigned long offset;

	if (!target->thread.program)
		return -EIO;
	for (offset = 0; to.left; offset += sizeof(long))
		membuf_store(&to, tane_get_reg(target, offset));
	return 0;
}

static int tane_general_set(struct task_struct *target,
			    const struct user_regset *regset, unsigned int pos,
			    unsigned int count, const void *kbuf,
			    const void __user *ubuf)
{
	if (!target->thread.program)
		return -EIO;
	while (count >= sizeof(long)) {
		unsigned int offset = pos;
		unsigned long value;
		int error;

		error = user_regset_copyin(&pos, &count, &kbuf, &ubuf, &value,
					   offset, offset + sizeof(value));
		error = error ?: tane_set_reg(target, offset, value);
		if (error)
			return error;
	}
	return 0;
}

static void tane_find_component(int component, u32 *size, u32 *offset)
{
	u32 eax = 0xd, ebx, ecx = component, edx;

	asm("cpuid" : "+a" (eax), "=b" (ebx), "+c" (ecx), "=d" (edx));
	*size = eax;
	*offset = ebx;
}

/* A component that is not present has its first values, whatever its bytes are. */
static void tane_reset_absent(struct tane_xstate *xstate, u64 features)
{
	u64 absent = features & ~xstate->present;
	int component;

	if (absent & XSTATE_X87) {
		xstate->fx.cwd = FCW_DEFAULT;
		xstate->fx.swd = 0;
		xstate->fx.twd = 0;
		xstate->fx.fop = 0;
		xstate->fx.rip = 0;
		xstate->fx.rdp = 0;
		memset(xstate->fx.st_space, 0, sizeof(xstate->fx.st_space));
	}
	if (absent & XSTATE_SSE)
		memset(xstate->fx.xmm_space, 0, sizeof(xstate->fx.xmm_space));
	for (component = 2; component < 63; component++) {
		u32 size, offset;

		if (!(absent >> component & 1))
			continue;
		tane_find_component(component, &size, &offset);
		memset((void *)xstate + offset, 0, size);
	}
}

/* As tracers see them: to be freed, or an error. */
static struct tane_xstate *tane_copy_xstate(struct tane_program *program)
{
	struct tane_xstate *copy;

	copy = kmemdup((void *)program->xstate, program->xstate_size,
		       GFP_KERNEL);
	if (!copy)
		return ERR_PTR(-ENOMEM);
	tane_reset_absent(copy, program->xfeatures);
	memset(&copy->fx.sw_reserved, 0, sizeof(copy->fx.sw_reserved));
	return copy;
}

/* all: of the area, with which components there are; else of its legacy part. */
static int tane_get_xstate(struct task_struct *target, struct membuf to,
			   bool all)
{
	struct tane_program *program = target->thread.program;
	struct tane_xstate *copy;

	if (!program)
		return -EIO;
	copy = tane_copy_xstate(program);
	if (IS_ERR(copy))
		return PTR_ERR(copy);
	/* Where tracers look for XCR0. */
	if (all)
		memcpy(&copy->fx.sw_reserved, &program->xfeatures, sizeof(u64));
	membuf_write(&to, copy, all ? program->xstate_size : FXSAVE_SIZE);
	kfree(copy);
	return to.left;
}

static int tane_fp_get(struct task_struct *target,
		       const struct user_regset *regset, struct membuf to)
{
	return tane_get_xstate(target, to, false);
}

static int tane_xstate_get(struct task_struct *target,
			   const struct user_regset *regset, struct membuf to)
{
	return tane_get_xstate(target, to, true);
}

/* What the processor would refuse to load is an error. */
static bool tane_is_loadable(const struct tane_xstate *xstate, u32 mask,
			     u64 features)
{
	return !(xstate->fx.mxcsr & ~mask) && !(xstate->present & ~features) &&
	       !xstate->compacted &&
	       !memchr_inv(xstate->reserved, 0, sizeof(xstate->reserved));
}

static int tane_set_xstate(struct task_struct *target, unsigned int pos,
			   unsigned int count, const void *kbuf,
			   const void __user *ubuf, bool all)
{
	struct tane_program *program = target->thread.program;
	unsigned int size = FXSAVE_SIZE;
	struct tane_xstate *next;
	u32 mask;
	int error;

	if (!program)
		return -EIO;
	if (all)
		size = program->xstate_size;
	if (all && (pos || count != size))
		return -EFAULT;
	next = tane_copy_xstate(program);
	if (IS_ERR(next))
		return PTR_ERR(next);
	mask = next->fx.mxcsr_mask ?: MXCSR_MASK_DEFAULT;
	error = user_regset_copyin(&pos, &count, &kbuf, &ubuf, next, 0, size);
	if (!all)
		next->present |= XSTATE_LEGACY;
	next->fx.mxcsr_mask = mask;
	if (!error && !tane_is_loadable(next, mask, program->xfeatures))
		error = -EINVAL;
	if (!error)
		memcpy((void *)program->xstate, next, program->xstate_size);
	kfree(next);
	return error;
}

static int tane_fp_set(struct task_struct *target,
		       const struct user_regset *regset, unsigned int pos,
		       unsigned int count, const void *kbuf,
		       const void __user *ubuf)
{
	return tane_set_xstate(target, pos, count, kbuf, ubuf, false);
}

static int tane_xstate_set(struct task_struct *target,
			   const struct user_regset *regset, unsigned int pos,
			   unsigned int count, const void *kbuf,
			   const void __user *ubuf)
{
	return tane_set_xstate(target, pos, count, kbuf, ubuf, true);
}

static struct user_regset tane_regsets[] = {
	[TANE_REGSET_GENERAL] = {
		.core_note_type	= NT_PRSTATUS,
		.n		= sizeof(struct user_regs_struct) / sizeof(long),
		.size		= sizeof(long),
		.align		= sizeof(long),
		.regset_get	= tane_general_get,
		.set		= tane_general_set,
	},
	[TANE_REGSET_FP] = {
		.core_note_type	= NT_PRFPREG,
		.n		= FXSAVE_SIZE / sizeof(long),
		.size		= sizeof(long),
		.align		= sizeof(long),
		.regset_get	= tane_fp_get,
		.set		= tane_fp_set,
	},
	[TANE_REGSET_XSTATE] = {
		.core_note_type	= NT_X86_XSTATE,
		.size		= sizeof(u64),
		.align		= sizeof(u64),
		.regset_get	= tane_xstate_get,
		.set		= tane_xstate_set,
	},
};

static const struct user_regset_view tane_view = {
	.name		= "x86_64",
	.e_machine	= EM_X86_64,
	.regsets	= tane_regsets,
	.n		= ARRAY_SIZE(tane_regsets),
};

const struct user_regset_view *task_user_regset_view(struct task_struct *task)
{
	struct tane_program *program = task->thread.program;

	/* What the host saves of vectors is the same for all. */
	if (program)
		WRITE_ONCE(tane_regsets[TANE_REGSET_XSTATE].n,
			   program->xstate_size / sizeof(u64));
	return &tane_view;
}
