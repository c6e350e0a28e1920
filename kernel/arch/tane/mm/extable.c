// SPDX-License-Identifier: GPL-2.0-only
/* Exception tables in the format of arch/x86's asm/asm.h. */
#include <linux/extable.h>
#include <linux/uaccess.h>
#include <asm/asm.h>
#include <asm/extable.h>
#include <asm/ptrace.h>

static unsigned long *tane_reg(struct pt_regs *regs, unsigned int nr)
{
	/* x86's encoding, as DEFINE_EXTABLE_TYPE_REG and ModRM count. */
	switch (nr) {
	case 0: return &regs->rax;
	case 1: return &regs->rcx;
	case 2: return &regs->rdx;
	case 3: return &regs->rbx;
	case 4: return &regs->rsp;
	case 5: return &regs->rbp;
	case 6: return &regs->rsi;
	case 7: return &regs->rdi;
	case 8: return &regs->r8;
	case 9: return &regs->r9;
	case 10: return &regs->r10;
	case 11: return &regs->r11;
	case 12: return &regs->r12;
	case 13: return &regs->r13;
	case 14: return &regs->r14;
	default: return &regs->r15;
	}
}

bool fixup_exception(struct pt_regs *regs)
{
	const struct exception_table_entry *entry;
	unsigned int type, nr;

	entry = search_exception_tables(regs->rip);
	if (!entry)
		return false;

	type = entry->data & EX_DATA_TYPE_MASK;
	nr = (entry->data & EX_DATA_REG_MASK) >> EX_DATA_REG_SHIFT;
	switch (type) {
	case EX_TYPE_DEFAULT:
	case EX_TYPE_UACCESS:
	case EX_TYPE_FAULT:
		break;
	case EX_TYPE_IMM_REG:
		*tane_reg(regs, nr) = entry->data >> EX_DATA_IMM_SHIFT;
		break;
	default:
		return false;
	}
	regs->rip = (unsigned long)&entry->fixup + entry->fixup;
	return true;
}
