// SPDX-License-Identifier: GPL-2.0-only
/*
 * The host's mappings are the TLB: showing a page table entry is an mmap() of
 * its frame in a reserved window, a flush takes the mapping away, and a missing
 * one is a fault that shows it again. The host allows some 65,530 mappings, so
 * neighbouring frames are shown by one call. Here is the kernel's own window;
 * those of memory that is the host's threads' or programs' are in tlb_user.c.
 */
#include <linux/mm.h>
#include <linux/smp.h>
#include <linux/vmalloc.h>
#include <asm/machine.h>
#include <asm/pgtable.h>
#include <asm/tlbflush.h>
#include "mm.h"

/* The lowest directory entry for an address, NULL when a level is missing. */
pmd_t *tane_find_pmd(struct mm_struct *mm, unsigned long address)
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

pte_t *tane_find_pte(struct mm_struct *mm, unsigned long address)
{
	pmd_t *pmd = tane_find_pmd(mm, address);

	return pmd ? pte_offset_kernel(pmd, address) : NULL;
}

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

static u32 tane_kernel_prot(pte_t pte)
{
	return pte_write(pte) ? TANE_PROT_READ | TANE_PROT_WRITE :
				TANE_PROT_READ;
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

void flush_tlb_all(void)
{
	flush_tlb_kernel_range(VMALLOC_START, VMALLOC_END);
}
