// SPDX-License-Identifier: GPL-2.0-only
/*
 * What is shown of address spaces: one mm in the window of mmap(), one in each region of
 * that of programs.
 */
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <asm/machine.h>
#include <asm/pgtable.h>
#include <asm/tlbflush.h>
#include "../kernel/window.h"
#include "mm.h"

/* A write to a clean page must fault, so that Linux learns of it. */
static u32 tane_user_prot(pte_t pte)
{
	u32 prot = TANE_PROT_READ;

	if (pte_write(pte) && pte_dirty(pte))
		prot |= TANE_PROT_WRITE;
	if (pte_val(pte) & _PAGE_EXEC)
		prot |= TANE_PROT_EXEC;
	return prot;
}

#ifdef CONFIG_TANE_RUN
static unsigned long tane_region_start(unsigned int at)
{
	return max((unsigned long)at << TANE_REGION_SHIFT,
		   (unsigned long)tane_boot->program_start);
}

static unsigned long tane_region_end(unsigned int at)
{
	return min((at + 1UL) << TANE_REGION_SHIFT,
		   (unsigned long)tane_boot->program_end);
}

static unsigned long tane_lock_window(void)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&tane_window_lock, flags);
	return flags;
}

static void tane_unlock_window(unsigned long flags)
{
	raw_spin_unlock_irqrestore(&tane_window_lock, flags);
}

static bool tane_is_shown_at(struct mm_struct *mm, unsigned long address)
{
	return tane_regions[address >> TANE_REGION_SHIFT].shown == mm;
}

/* What is shown of it here and its page tables no longer say. */
static void tane_hide_in_regions(struct mm_struct *mm, unsigned long start,
				 unsigned long end)
{
	unsigned int at;

	for_each_set_bit(at, mm->context.claims, TANE_REGIONS) {
		unsigned long from = max(start, tane_region_start(at));
		unsigned long to = min(end, tane_region_end(at));

		if (from >= to || tane_regions[at].shown != mm)
			continue;
		if (!tane_correct(mm, at, from, to, TANE_MOST_PARTS))
			tane_hide(from, to);
	}
}
#else
static unsigned long tane_lock_window(void)
{
	return 0;
}

static void tane_unlock_window(unsigned long flags)
{
}

static bool tane_is_shown_at(struct mm_struct *mm, unsigned long address)
{
	return true;
}

static void tane_hide_in_regions(struct mm_struct *mm, unsigned long start,
				 unsigned long end)
{
}
#endif

/*
 * Under the lock of the regions even if nothing of it is shown: whoever was just looking
 * at the entry has seen it gone afterwards.
 */
static void tane_hide_user(struct mm_struct *mm, unsigned long start,
			   unsigned long end)
{
	unsigned long flags;

	start = max(start, tane_window_start(mm));
	end = min(end, tane_window_end_of(mm));
	if (mm->context.program) {
		flags = tane_lock_window();
		tane_hide_in_regions(mm, start, end);
		tane_unlock_window(flags);
	} else if (mm->context.shown) {
		tane_hide(start, end);
	}
}

/* What the window is to show of a page: false if nothing. */
bool tane_find_shown(struct mm_struct *mm, unsigned long va,
		     struct tane_run *page)
{
	pte_t *ptep = tane_find_pte(mm, va);
	pte_t pte;

	if (!ptep)
		return false;
	pte = READ_ONCE(*ptep);
	if (!(pte_val(pte) & _PAGE_PRESENT) || !pte_young(pte))
		return false;
	page->va = va;
	page->pa = pte_pfn(pte) << PAGE_SHIFT;
	page->prot = tane_user_prot(pte);
	return true;
}

/*
 * What was taken away with this page comes back with it: a fault costs several
 * times what it costs to show a page. The table of these entries is locked.
 */
static bool tane_show_around(struct mm_struct *mm, unsigned long address,
			     pte_t *ptep)
{
	unsigned int at = (address >> PAGE_SHIFT) % TANE_AROUND;
	unsigned long flags = tane_lock_window();
	struct tane_run run = { };
	unsigned int i;

	if (mm->context.program && !tane_is_shown_at(mm, address)) {
		tane_unlock_window(flags);
		return false;
	}

	address = (address & PAGE_MASK) - at * PAGE_SIZE;
	ptep -= at;
	for (i = 0; i < TANE_AROUND; i++, ptep++, address += PAGE_SIZE) {
		pte_t pte = READ_ONCE(*ptep);

		if (address < tane_window_start(mm) ||
		    address >= tane_window_end_of(mm))
			continue;
		if (i != at && mm->context.program && tane_is_told(address))
			continue;
		if ((pte_val(pte) & _PAGE_PRESENT) && pte_young(pte))
			tane_add(&run, address, pte, tane_user_prot(pte));
	}
	tane_show(&run);
	tane_unlock_window(flags);
	return true;
}

/*
 * A TLB miss: the page is there and the access allowed, but nothing is shown.
 * Linux sees no reason to call update_mmu_cache() then. With mmap_lock held;
 * the entry stays locked until it is shown, or a flush could come between.
 */
bool tane_show_user(struct mm_struct *mm, unsigned long address, bool write)
{
	pmd_t *pmd = tane_find_pmd(mm, address);
	bool shown = false;
	spinlock_t *lock;	/* of the page table */
	pte_t *ptep, pte;

	if (!pmd)
		return false;
	ptep = pte_offset_map_lock(mm, pmd, address, &lock);
	if (!ptep)
		return false;
	pte = READ_ONCE(*ptep);
	if ((pte_val(pte) & _PAGE_PRESENT) && pte_young(pte) &&
	    (!write || (pte_write(pte) && pte_dirty(pte)))) {
		shown = tane_show_around(mm, address, ptep);
	}
	pte_unmap_unlock(ptep, lock);
	return shown;
}

void update_mmu_cache_range(struct vm_fault *vmf, struct vm_area_struct *vma,
			    unsigned long address, pte_t *ptep, unsigned int nr)
{
	struct mm_struct *mm = vma->vm_mm;
	struct tane_run run = { };

	/* Of a program's all that the fault has brought is shown at its end. */
	if (!mm->context.shown || mm->context.program)
		return;
	for (; nr; nr--, ptep++, address += PAGE_SIZE) {
		pte_t pte = READ_ONCE(*ptep);

		if (address < tane_window_start(mm) ||
		    address >= tane_window_end_of(mm))
			continue;
		if ((pte_val(pte) & _PAGE_PRESENT) && pte_young(pte))
			tane_add(&run, address & PAGE_MASK, pte,
				 tane_user_prot(pte));
	}
	tane_show(&run);
}

void flush_tlb_range(struct vm_area_struct *vma, unsigned long start,
		     unsigned long end)
{
	tane_hide_user(vma->vm_mm, start, end);
}

void flush_tlb_page(struct vm_area_struct *vma, unsigned long address)
{
	address &= PAGE_MASK;
	tane_hide_user(vma->vm_mm, address, address + PAGE_SIZE);
}

void flush_tlb_mm(struct mm_struct *mm)
{
	tane_hide_user(mm, tane_window_start(mm), tane_window_end_of(mm));
}

#ifdef CONFIG_TANE_RUN
/* Nobody has memory in this region any more. */
void tane_hide_region(unsigned int at)
{
	if (tane_shows_anything(at))
		tane_hide(tane_region_start(at), tane_region_end(at));
}

/*
 * This region is another program's from now on; no thread of the one before is in
 * its code. What that had shown stayed there until now, as nobody looked.
 */
void tane_show_region(unsigned int at, struct mm_struct *prev,
		      struct mm_struct *next)
{
	if (prev)
		tane_note_leaving(prev, at);
	/* What is wrong is shown or hidden part by part, what is away by run. */
	if (!tane_correct(next, at, tane_region_start(at), tane_region_end(at),
			  TANE_MOST_PARTS / 4))
		tane_hide(tane_region_start(at), tane_region_end(at));
	tane_bring_back(next, at);
}
#endif
