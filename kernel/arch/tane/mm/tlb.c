// SPDX-License-Identifier: GPL-2.0-only
/*
 * The host's mappings are the TLB: showing a page table entry is an mmap() of
 * its frame in a reserved window, a flush takes the mapping away, and a missing
 * one is a fault that shows it again. The host allows some 65,530 mappings, so
 * neighbouring frames are shown by one call.
 */
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/smp.h>
#include <linux/vmalloc.h>
#include <asm/machine.h>
#include <asm/pgtable.h>
#include <asm/tlbflush.h>
#include "../kernel/window.h"
#include "mm.h"

/* The lowest directory entry for an address, NULL when a level is missing. */
static pmd_t *tane_find_pmd(struct mm_struct *mm, unsigned long address)
{
	pgd_t *pgd = pgd_offset(mm, address);
	p4d_t *p4d = p4d_offset(pgd, address);
	pud_t *pud;
	pmd_t *pmd;

	if (p4d_none(*p4d))
		return NULL;
	pud = pud_offset(p4d, address);
	if (pud_none(*pud))
		return NULL;
	pmd = pmd_offset(pud, address);
	return pmd_none(*pmd) ? NULL : pmd;
}

static pte_t *tane_find_pte(struct mm_struct *mm, unsigned long address)
{
	pmd_t *pmd = tane_find_pmd(mm, address);

	return pmd ? pte_offset_kernel(pmd, address) : NULL;
}

/* So many neighbours are looked at when one page is to be shown again. */
#define TANE_AROUND	16

/* One call for a whole window, whatever is in it. */
static void tane_hide_user_window(void)
{
	tane_host(unmap, tane_boot->user_start,
		  tane_boot->user_end - tane_boot->user_start, 0, 0);
}

static void tane_hide_program_window(void)
{
	if (!tane_boot->program_end)
		return;
	tane_host(unmap, tane_boot->program_start,
		  tane_boot->program_end - tane_boot->program_start, 0, 0);
	tane_note_hidden(tane_boot->program_start, tane_boot->program_end);
}

void tane_show(struct tane_run *run)
{
	int error;

	if (!run->len)
		return;
	error = tane_host(map, run->va, run->pa, run->len, run->prot);
	if (error == -ENOMEM) {
		/* As many as the host allows: what is still used comes back. */
		tane_hide_user_window();
		tane_hide_program_window();
		error = tane_host(map, run->va, run->pa, run->len, run->prot);
	}
	if (error)
		panic("tane: the host cannot map %lx bytes at %lx: error %d",
		      run->len, run->va, error);
	tane_note_shown(run);
	run->len = 0;
}

/* A page that is shown with its neighbours, or after them. */
void tane_add_run(struct tane_run *run, const struct tane_run *page)
{
	if (run->len && (run->va + run->len != page->va ||
			 run->pa + run->len != page->pa ||
			 run->prot != page->prot))
		tane_show(run);
	if (!run->len) {
		run->va = page->va;
		run->pa = page->pa;
		run->prot = page->prot;
	}
	run->len += PAGE_SIZE;
}

static void tane_add(struct tane_run *run, unsigned long va, pte_t pte, u32 prot)
{
	const struct tane_run page = {
		.va = va,
		.pa = pte_pfn(pte) << PAGE_SHIFT,
		.prot = prot,
	};

	tane_add_run(run, &page);
}

static u32 tane_kernel_prot(pte_t pte)
{
	return pte_write(pte) ? TANE_PROT_READ | TANE_PROT_WRITE :
				TANE_PROT_READ;
}

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

void tane_hide(unsigned long start, unsigned long end)
{
	if (start >= end)
		return;
	tane_host(unmap, start, end - start, 0, 0);
	tane_note_hidden(start, end);
}

/* Show what the kernel's page tables say of a range. */
void tane_map_vmalloc(unsigned long start, unsigned long end)
{
	struct tane_run run = { };
	unsigned long va;

	for (va = start & PAGE_MASK; va < end; va += PAGE_SIZE) {
		pte_t *ptep = tane_find_pte(&init_mm, va);

		if (ptep && pte_present(*ptep))
			tane_add(&run, va, *ptep, tane_kernel_prot(*ptep));
	}
	tane_show(&run);
}

/*
 * Processes of the host that share this kernel have mappings of their own. Those
 * outside look when they come in; those in another CPU are told.
 */
#ifdef CONFIG_SMP
static bool tane_is_other(int cpu, void *unused)
{
	struct tane_vcpu *vcpu = tane_boot->vcpus + cpu;

	return READ_ONCE(vcpu->lock) &&
	       READ_ONCE(vcpu->holder) >> 32 != tane_vcpu_get(holder) >> 32;
}

static void tane_look_at_windows(void *unused)
{
	tane_host(unmap, 0, 0, 0, 0);
}

static void tane_tell_others(void)
{
	if (tane_boot->shared)
		on_each_cpu_cond(tane_is_other, tane_look_at_windows, NULL, true);
}
#else
static void tane_tell_others(void)
{
}
#endif

void tane_unmap_vmalloc(unsigned long start, unsigned long end)
{
	tane_hide(start & PAGE_MASK, PAGE_ALIGN(end));
	tane_tell_others();
}

/* A fault in the vmalloc window. True if there is a page now. */
bool tane_fault_vmalloc(unsigned long address)
{
	pte_t *ptep = tane_find_pte(&init_mm, address);

	if (!ptep || !pte_present(*ptep))
		return false;
	tane_map_vmalloc(address & PAGE_MASK, (address & PAGE_MASK) + PAGE_SIZE);
	return true;
}

/*
 * Purging vmalloc flushes the union of what was freed, live areas between
 * included: only what has no entry any more goes.
 */
void flush_tlb_kernel_range(unsigned long start, unsigned long end)
{
	unsigned long va, hole = 0;

	start = max_t(unsigned long, start & PAGE_MASK, VMALLOC_START);
	end = min_t(unsigned long, PAGE_ALIGN(end), VMALLOC_END);
	for (va = start; va < end; va += PAGE_SIZE) {
		pte_t *ptep = tane_find_pte(&init_mm, va);
		bool none = !ptep || pte_none(*ptep);

		if (none && !hole)
			hole = va;
		if (!none && hole) {
			tane_hide(hole, va);
			hole = 0;
		}
	}
	if (hole)
		tane_hide(hole, end);
	tane_tell_others();
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
 * User mappings: one mm is shown in the window of mmap(), one in each region of
 * that of programs. Under the lock of these regions even if nothing of it is shown:
 * whoever was just looking at the entry has seen it gone afterwards.
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

void flush_tlb_all(void)
{
	flush_tlb_kernel_range(VMALLOC_START, VMALLOC_END);
}
