// SPDX-License-Identifier: GPL-2.0-only
/*
 * New memory of programs. The first touch of a page costs a signal of the host's, some
 * microseconds, beside the page. A thread that has touched pages in a row will touch the
 * next ones too, so it gets as many of them as it has touched so far, up to a limit: the
 * thousand pages of a buffer are forty faults, and at most half of what a program has
 * of such memory was never touched.
 *
 * Nobody has to go without for this: not while memory is short, nor in a control group,
 * whose limit may be near.
 */
#include <linux/hash.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/swap.h>
#include <linux/userfaultfd_k.h>
#include <linux/vmstat.h>
#include "mm.h"

#define TANE_PREFAULT_MOST		32
#define TANE_STREAK_BITS	6

/* What threads have touched in a row. Who shares a place with another has none. */
static struct tane_streak {
	struct task_struct *task;
	unsigned long next;
	unsigned int pages;
} tane_streaks[1 << TANE_STREAK_BITS];

static bool tane_is_in_group(struct mm_struct *mm)
{
	struct mem_cgroup *group;
	bool is_in;

	if (mem_cgroup_disabled())
		return false;
	group = get_mem_cgroup_from_mm(mm);
	is_in = !mem_cgroup_is_root(group);
	mem_cgroup_put(group);
	return is_in;
}

static bool tane_memory_is_short(void)
{
	return global_zone_page_state(NR_FREE_PAGES) <
	       totalreserve_pages + totalram_pages() / 16;
}

/* How many pages behind this one, which was just touched, the thread gets. */
static unsigned int tane_pages_to_prefault(unsigned long page)
{
	struct tane_streak *streak =
		tane_streaks + hash_ptr(current, TANE_STREAK_BITS);

	if (READ_ONCE(streak->task) != current ||
	    READ_ONCE(streak->next) != page) {
		WRITE_ONCE(streak->task, current);
		WRITE_ONCE(streak->pages, 0);
		return 0;
	}
	return min_t(unsigned int, READ_ONCE(streak->pages), TANE_PREFAULT_MOST);
}

static void tane_note_streak(unsigned long next, unsigned int pages)
{
	struct tane_streak *streak =
		tane_streaks + hash_ptr(current, TANE_STREAK_BITS);

	WRITE_ONCE(streak->next, next);
	WRITE_ONCE(streak->pages, READ_ONCE(streak->pages) + pages);
}

/* Whether there is nothing at this address, not even a page of zeros or one that is out. */
static bool tane_is_new(struct mm_struct *mm, unsigned long address)
{
	pte_t *ptep = tane_find_pte(mm, address);

	return !ptep || pte_none(READ_ONCE(*ptep));
}

/*
 * A program's thread has got new memory at this address. mmap_lock is held, before and
 * after. Where what it has ends then: what it got is not shown yet.
 */
unsigned long tane_prefault(struct vm_area_struct *vma, unsigned long address)
{
	unsigned long page = address & PAGE_MASK, at = page + PAGE_SIZE;
	struct mm_struct *mm = vma->vm_mm;
	unsigned int pages = tane_pages_to_prefault(page);

	if (pages && (tane_memory_is_short() || tane_is_in_group(mm)))
		pages = 0;
	for (; pages && at < vma->vm_end; pages--, at += PAGE_SIZE) {
		/* Without FAULT_FLAG_ALLOW_RETRY it keeps the lock. */
		if (!tane_is_new(mm, at) ||
		    handle_mm_fault(vma, at, FAULT_FLAG_WRITE, NULL) &
			    (VM_FAULT_ERROR | VM_FAULT_RETRY))
			break;
	}
	tane_note_streak(at, (at - page) >> PAGE_SHIFT);
	return at;
}

/* Whether a write there would bring new memory that is like the next page's. */
bool tane_brings_memory(struct vm_area_struct *vma, unsigned long address)
{
	return vma_is_anonymous(vma) && !userfaultfd_armed(vma) &&
	       tane_is_new(vma->vm_mm, address);
}
