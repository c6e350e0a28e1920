// SPDX-License-Identifier: GPL-2.0-only
/*
 * The window of programs in regions of 512 GiB. Each address space gets one of its
 * own by execve(2), its home, where all of its memory is that may be anywhere: so
 * those of different programs are shown beside each other, and who goes on needs
 * nothing changed. A child that fork(2) made has its parent's addresses, a program
 * that is linked for fixed ones those, and mmap() may ask for any: whoever has
 * memory in the same region as another takes turns with it (window.c).
 *
 * A region is claimed before there is memory in it, since an access to another's
 * page that is shown would be no fault.
 */
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/sched/mm.h>
#include <linux/security.h>
#include <asm/machine.h>
#include <asm/program.h>
#include "window.h"

/* Below are fixed addresses: those of ET_EXEC, and where Go begins its heap. */
#define TANE_FIRST_HOME	2

struct tane_region tane_regions[TANE_REGIONS];

unsigned long tane_home(struct mm_struct *mm)
{
	return (unsigned long)mm->context.home << TANE_REGION_SHIFT;
}

/* Of a range of the window: the last one belongs to it. */
static void tane_find_regions(unsigned long addr, unsigned long len,
			      unsigned int *first, unsigned int *last)
{
	unsigned long end = addr + max(len, 1UL) - 1;

	*first = min(addr >> TANE_REGION_SHIFT, TANE_REGIONS - 1UL);
	*last = min(end >> TANE_REGION_SHIFT, TANE_REGIONS - 1UL);
}

static void tane_claim_region(struct mm_struct *mm, unsigned int at)
{
	lockdep_assert_held(&tane_window_lock);
	if (__test_and_set_bit(at, mm->context.claims))
		return;
	if (!tane_regions[at].claims++)
		tane_open_account(at);
	if (tane_regions[at].shown != mm)
		mm->context.shown = false;
}

/* That of a new program: the first that nobody has, or whichever fewest have. */
void tane_claim_home(struct mm_struct *mm)
{
	unsigned int best = TANE_FIRST_HOME, at;
	unsigned long flags;

	raw_spin_lock_irqsave(&tane_window_lock, flags);
	for (at = TANE_FIRST_HOME; at < TANE_REGIONS; at++)
		if (tane_regions[at].claims < tane_regions[best].claims)
			best = at;
	mm->context.home = best;
	tane_claim_region(mm, best);
	raw_spin_unlock_irqrestore(&tane_window_lock, flags);
}

/* fork(2): the same addresses. */
void tane_copy_claims(struct mm_struct *from, struct mm_struct *to)
{
	unsigned long flags;
	unsigned int at;

	raw_spin_lock_irqsave(&tane_window_lock, flags);
	to->context.program = true;
	to->context.home = from->context.home;
	for_each_set_bit(at, from->context.claims, TANE_REGIONS)
		tane_claim_region(to, at);
	raw_spin_unlock_irqrestore(&tane_window_lock, flags);
}

/* The address space ends: what it had shown where nobody else is goes away. */
void tane_give_claims(struct mm_struct *mm)
{
	unsigned int at;

	lockdep_assert_held(&tane_window_lock);
	for_each_set_bit(at, mm->context.claims, TANE_REGIONS) {
		struct tane_region *region = tane_regions + at;

		if (region->shown == mm)
			region->shown = NULL;
		if (!--region->claims)
			tane_hide_region(at);
	}
	bitmap_zero(mm->context.claims, TANE_REGIONS);
	mm->context.shown = false;
}

/* Memory of the current program is, or is going to be, here. May sleep. */
void tane_claim(struct mm_struct *mm, unsigned long addr, unsigned long len)
{
	unsigned int at, last;
	unsigned long flags;

	tane_find_regions(addr, len, &at, &last);
	if (find_next_zero_bit(mm->context.claims, last + 1, at) <= last) {
		raw_spin_lock_irqsave(&tane_window_lock, flags);
		for (; at <= last; at++)
			tane_claim_region(mm, at);
		raw_spin_unlock_irqrestore(&tane_window_lock, flags);
	}
	if (!mm->context.shown)
		tane_take_window(mm);
}

/* Whether nobody else has memory there. */
static bool tane_is_vacant(struct mm_struct *mm, unsigned long addr,
			   unsigned long len)
{
	unsigned int at, last;

	tane_find_regions(addr, len, &at, &last);
	for (; at <= last; at++)
		if (READ_ONCE(tane_regions[at].claims) >
		    test_bit(at, mm->context.claims))
			return false;
	return true;
}

/* There is no room at home: from the end of the window on, where homes are last. */
static unsigned long tane_find_elsewhere(unsigned long len)
{
	struct vm_unmapped_area_info info = {
		.flags = VM_UNMAPPED_AREA_TOPDOWN,
		.length = len,
		.low_limit = max(PAGE_SIZE, mmap_min_addr),
		.high_limit = TASK_SIZE,
	};

	return vm_unmapped_area(&info);
}

unsigned long arch_get_unmapped_area(struct file *filp, unsigned long addr,
				     unsigned long len, unsigned long pgoff,
				     unsigned long flags, vm_flags_t vm_flags)
{
	struct mm_struct *mm = current->mm;

	if (!mm->context.program)
		return generic_get_unmapped_area(filp, addr, len, pgoff, flags,
						 vm_flags);
	if (!(flags & MAP_FIXED)) {
		/* A wish only, and not worth taking turns. */
		if (addr && !tane_is_vacant(mm, addr, len))
			addr = 0;
		addr = generic_get_unmapped_area(filp, addr, len, pgoff, flags,
						 vm_flags);
		if (IS_ERR_VALUE(addr))
			addr = tane_find_elsewhere(len);
	}
	if (!IS_ERR_VALUE(addr) && addr < TASK_SIZE)
		tane_claim(mm, addr, len);
	return addr;
}
