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

/* A program's task has what is shown of its memory, and waits for the rest. */
static bool tane_in_shown(struct mm_struct *mm, unsigned long address)
{
	return mm && (mm->context.shown || mm->context.program) &&
	       tane_in(address, tane_window_start(mm), tane_window_end_of(mm));
}

/* As on x86, what may be written or executed may be read. */
static vm_flags_t tane_wanted(unsigned long error)
{
	if (error & FAULT_WRITE)
		return VM_WRITE;
	return error & FAULT_FETCH ? VM_EXEC : VM_READ | VM_WRITE | VM_EXEC;
}

#ifdef CONFIG_TANE_RUN
/* A stack may grow into another region, which nobody has asked for. */
static void tane_have_region(struct mm_struct *mm, unsigned long address)
{
	if (mm->context.program)
		tane_claim(mm, address, 1);
}
#else
static void tane_have_region(struct mm_struct *mm, unsigned long address)
{
}
#endif

/* Show what a fault has brought to a program. */
static void tane_show_brought(struct vm_area_struct *vma, unsigned long address,
			      bool write, bool is_new)
{
	unsigned long next = address + 1, at;

	if (is_new)
		next = tane_prefault(vma, address);
	for (at = address; at < next; at = tane_shown_together(at))
		tane_show_user(vma->vm_mm, at, write);
}

/* 0 if the access may be tried again; else why not. */
static vm_fault_t tane_fault_user(struct pt_regs *regs, unsigned long address,
				  unsigned long error, int *code)
{
	unsigned int flags = FAULT_FLAG_DEFAULT;
	struct mm_struct *mm = current->mm;
	bool write = error & FAULT_WRITE, is_new;
	struct vm_area_struct *vma;
	vm_fault_t fault;

	*code = SEGV_MAPERR;
	if (!tane_in_shown(mm, address) || faulthandler_disabled())
		return VM_FAULT_SIGSEGV;
	if (write)
		flags |= FAULT_FLAG_WRITE;
	if (error & FAULT_FETCH)
		flags |= FAULT_FLAG_INSTRUCTION;
	if (user_mode(regs))
		flags |= FAULT_FLAG_USER;
	tane_have_region(mm, address);
retry:
	vma = lock_mm_and_find_vma(mm, address, regs);
	if (!vma)
		return VM_FAULT_SIGSEGV;
	if (!(vma->vm_flags & tane_wanted(error))) {
		mmap_read_unlock(mm);
		*code = SEGV_ACCERR;
		return VM_FAULT_SIGSEGV;
	}
	if (tane_show_user(mm, address, write)) {
		mmap_read_unlock(mm);
		return 0;
	}
	is_new = mm->context.program && write && tane_brings_memory(vma, address);
	fault = handle_mm_fault(vma, address, flags, regs);
	if (fault_signal_pending(fault, regs))
		return VM_FAULT_RETRY;
	if (fault & VM_FAULT_COMPLETED)
		return 0;
	if (fault & VM_FAULT_RETRY) {
		flags |= FAULT_FLAG_TRIED;
		goto retry;
	}
	if (mm->context.program && !(fault & VM_FAULT_ERROR))
		tane_show_brought(vma, address, write, is_new);
	mmap_read_unlock(mm);
	return fault & VM_FAULT_ERROR;
}

#ifdef CONFIG_TANE_RUN
/* A program's thread touched memory that is not shown, or not its own. */
void tane_program_fault(struct pt_regs *regs, unsigned long address,
			unsigned long error)
{
	int code;
	vm_fault_t fault = tane_fault_user(regs, address, error, &code);
	void __user *at = (void __user *)address;

	/* A signal that interrupted it is delivered on the way back. */
	if (!fault || fault == VM_FAULT_RETRY)
		return;
	if (fault & VM_FAULT_OOM)
		pagefault_out_of_memory();
	else if (fault & (VM_FAULT_SIGBUS | VM_FAULT_HWPOISON |
			  VM_FAULT_HWPOISON_LARGE))
		force_sig_fault(SIGBUS, BUS_ADRERR, at);
	else
		force_sig_fault(SIGSEGV, code, at);
}
#endif

/* A host thread, outside of any call, touched a page of the user window. */
long tane_user_fault(unsigned long address, unsigned long error)
{
	struct pt_regs regs = { .cs = 3 };
	int code;
	vm_fault_t fault = tane_fault_user(&regs, address, error, &code);

	/* A signal interrupted it: taken on the way out, before the next try. */
	return !fault || fault == VM_FAULT_RETRY ? 0 : -EFAULT;
}

void tane_fault(struct pt_regs *regs, unsigned long address, unsigned long error)
{
	bool enabled = tane_vcpu_get(irq_enabled);
	bool fpu;
	int code;

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
	if (enabled && tane_in_shown(current->mm, address) &&
	    !tane_fault_user(regs, address, error, &code))
		return;
	if (!fixup_exception(regs))
		tane_oops(regs, error & FAULT_FETCH ? "bad jump" : "bad access",
			  address);
}
