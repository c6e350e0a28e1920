/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of this directory call of one another. */
#ifndef _TANE_MM_H
#define _TANE_MM_H

#include <linux/mm_types.h>
#include <asm/machine.h>

/* The window in which an address space is shown, if it is. */
static inline unsigned long tane_window_start(struct mm_struct *mm)
{
	return mm->context.program ? tane_boot->program_start :
				     tane_boot->user_start;
}

static inline unsigned long tane_window_end_of(struct mm_struct *mm)
{
	return mm->context.program ? tane_boot->program_end :
				     tane_boot->user_end;
}

/* A run of pages that one host mmap() can show. */
struct tane_run {
	unsigned long va;
	unsigned long pa;
	unsigned long len;
	u32 prot;
};

/* tlb.c */
pmd_t *tane_find_pmd(struct mm_struct *mm, unsigned long address);
pte_t *tane_find_pte(struct mm_struct *mm, unsigned long address);
void tane_show(struct tane_run *run);
void tane_hide(unsigned long start, unsigned long end);
void tane_add_run(struct tane_run *run, const struct tane_run *page);

static inline void tane_add(struct tane_run *run, unsigned long va, pte_t pte, u32 prot)
{
	const struct tane_run page = {
		.va = va,
		.pa = pte_pfn(pte) << PAGE_SHIFT,
		.prot = prot,
	};

	tane_add_run(run, &page);
}

/* tlb_user.c */
bool tane_find_shown(struct mm_struct *mm, unsigned long va,
		     struct tane_run *page);

/* shown.c */
#ifdef CONFIG_TANE_RUN
void tane_note_shown(const struct tane_run *run);
void tane_note_hidden(unsigned long start, unsigned long end);
#define TANE_MOST_PARTS	24
bool tane_shows_anything(unsigned int region);
bool tane_correct(struct mm_struct *mm, unsigned int region, unsigned long start,
		  unsigned long end, unsigned int most);
bool tane_is_told(unsigned long va);
void tane_note_leaving(struct mm_struct *mm, unsigned int region);
void tane_bring_back(struct mm_struct *mm, unsigned int region);
#else
static inline void tane_note_shown(const struct tane_run *run)
{
}

static inline void tane_note_hidden(unsigned long start, unsigned long end)
{
}

static inline bool tane_is_told(unsigned long va)
{
	return false;
}

#endif

/* tlb_user.c */
bool tane_show_user(struct mm_struct *mm, unsigned long address, bool write);
/* So many neighbours are looked at when one page is to be shown again. */
#define TANE_AROUND	16

/* The first address behind this one that is not shown with it. */
static inline unsigned long tane_shown_together(unsigned long address)
{
	return (address | (TANE_AROUND * PAGE_SIZE - 1)) + 1;
}

/* prefault.c */
#ifdef CONFIG_TANE_RUN
bool tane_brings_memory(struct vm_area_struct *vma, unsigned long address);
unsigned long tane_prefault(struct vm_area_struct *vma, unsigned long address);
#else
static inline bool tane_brings_memory(struct vm_area_struct *vma,
				      unsigned long address)
{
	return false;
}

static inline unsigned long tane_prefault(struct vm_area_struct *vma,
					  unsigned long address)
{
	return address;
}
#endif

/* vmlinux.lds.S: behind the constants. */
extern char __tane_rodata_end[];

#endif
