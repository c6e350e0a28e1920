// SPDX-License-Identifier: GPL-2.0-only
/*
 * Faults of kernel code, sent here by the host's signal handler. In the vmalloc
 * window it is a TLB miss; in the user window Linux decides; elsewhere a bad
 * pointer that the exception table answers, or a bug that ends this kernel.
 */
#include <linux/extable.h>
#include <linux/hardirq.h>
#include <linux/kprobes.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>
#include <asm/fpu/api.h>
#include <asm/machine.h>
#include <asm/ptrace.h>
#include <asm/tlbflush.h>
#include "mm.h"

#define FAULT_WRITE	2	/* x86's page fault error code */
#define FAULT_FETCH	16

static bool tane_in(unsigned long address, u64 start, u64 end)
{
	return address >= start && address < end;
}

/* True if the access may be tried again. */
static bool tane_fault_user(struct pt_regs *regs, unsigned long address,
			    unsigned long error)
{
	unsigned int flags = FAULT_FLAG_DEFAULT;
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	vm_fault_t fault;

	if (!mm || !mm->context.shown || faulthandler_disabled())
		return false;
	if (error & FAULT_WRITE)
		flags |= FAULT_FLAG_WRITE;
retry:
	vma = lock_mm_and_find_vma(mm, address, regs);
	if (!vma)
		return false;
	if (!(vma->vm_flags & (error & FAULT_WRITE ? VM_WRITE : VM_READ))) {
		mmap_read_unlock(mm);
		return false;
	}
	if (tane_show_user(mm, address, error & FAULT_WRITE)) {
		mmap_read_unlock(mm);
		return true;
	}
	fault = handle_mm_fault(vma, address, flags, regs);
	if (fault_signal_pending(fault, regs))
		return false;
	if (fault & VM_FAULT_COMPLETED)
		return true;
	if (fault & VM_FAULT_RETRY) {
		flags |= FAULT_FLAG_TRIED;
		goto retry;
	}
	mmap_read_unlock(mm);
	return !(fault & VM_FAULT_ERROR);
}

/* A host thread, outside of any call, touched a page of the user window. */
long tane_user_fault(unsigned long address, unsigned long error)
{
	struct pt_regs regs = { .cs = 3 };

	return tane_fault_user(&regs, address, error) ? 0 : -EFAULT;
}

void tane_fault(struct pt_regs *regs, unsigned long address, unsigned long error)
{
	bool enabled = tane_vcpu_get(irq_enabled);
	bool fpu;

	if (tane_in(address, tane_boot->vmalloc_start, tane_boot->vmalloc_end)) {
		tane_vcpu_set(irq_enabled, ARCH_IRQ_DISABLED);
		fpu = tane_fpu_save();
		if (!tane_fault_vmalloc(address) && !fixup_exception(regs))
			tane_oops(regs, "bad access", address);
		if (fpu)
			tane_fpu_restore();
		if (enabled)
			raw_local_irq_enable();
		return;
	}
	/* An instruction that a probe has replaced, elsewhere: back to its place. */
	kprobe_page_fault(regs, 14);
	if (tane_in(address, tane_boot->user_start, tane_boot->user_end) &&
	    enabled && tane_fault_user(regs, address, error))
		return;
	if (!fixup_exception(regs))
		tane_oops(regs, error & FAULT_FETCH ? "bad jump" : "bad access",
			  address);
}
