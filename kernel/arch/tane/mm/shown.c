// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the window of programs shows. A flush then takes away only what the page
 * tables no longer say, and another process finds there what it shares with the
 * one before, and what it had shown itself when it was last there: a page that
 * comes back by a fault costs a signal besides.
 *
 * On several CPUs one process has the window all the time, and none of this is
 * kept. On one nobody changes page tables while this looks at them.
 */
#include <linux/mm.h>
#include <asm/machine.h>
#include <asm/pgtable.h>
#include "mm.h"

/* Beyond these it is known only that there is more. */
#define TANE_RUNS	256

/* What is shown, the newest last, no page twice. */
static struct tane_run tane_runs[TANE_RUNS];
static unsigned int tane_nr_runs;
static bool tane_more_runs;

struct tane_part {
	unsigned long va;
	unsigned long len;
};

/*
 * What so many address spaces had shown when they left the window, the newest of
 * it. Of one that has ended and whose place another took it does no harm. Which
 * of it was used cannot be seen: now and then nothing is brought back, and faults
 * tell.
 */
#define TANE_RECENT		32
#define TANE_RECENT_PARTS	10
#define TANE_RECENT_PAGES	512
#define TANE_RECENT_TIMES	16

struct tane_recent {
	struct mm_struct *mm;
	unsigned int times;
	unsigned int nr;
	struct tane_part parts[TANE_RECENT_PARTS];
};

static struct tane_recent tane_recent[TANE_RECENT];

static bool tane_keeps_account(void)
{
	return tane_boot->nr_vcpus == 1;
}

static void tane_append(unsigned long va, unsigned long pa, unsigned long len,
			u32 prot)
{
	if (tane_nr_runs == TANE_RUNS) {
		tane_more_runs = true;
		return;
	}
	tane_runs[tane_nr_runs++] = (struct tane_run){
		.va = va, .pa = pa, .len = len, .prot = prot,
	};
}

void tane_note_hidden(unsigned long start, unsigned long end)
{
	unsigned int i;

	if (!tane_keeps_account() || start >= tane_boot->program_end ||
	    end <= tane_boot->program_start)
		return;
	if (start <= tane_boot->program_start && end >= tane_boot->program_end) {
		tane_nr_runs = 0;
		tane_more_runs = false;
		return;
	}
	for (i = tane_nr_runs; i-- > 0;) {
		struct tane_run *run = tane_runs + i, rest = *run;
		unsigned long run_end = run->va + run->len;

		if (end <= run->va || start >= run_end)
			continue;
		rest.va = end;
		rest.pa += end - run->va;
		rest.len = run_end - end;
		if (run->va < start) {
			run->len = start - run->va;
			if (end < run_end)
				tane_append(rest.va, rest.pa, rest.len, rest.prot);
		} else if (end < run_end) {
			*run = rest;
		} else {
			memmove(run, run + 1,
				(--tane_nr_runs - i) * sizeof(*run));
		}
	}
}

void tane_note_shown(const struct tane_run *run)
{
	struct tane_run *last;

	if (!tane_keeps_account() || run->va < tane_boot->program_start ||
	    run->va >= tane_boot->program_end)
		return;
	tane_note_hidden(run->va, run->va + run->len);
	last = tane_runs + tane_nr_runs - 1;
	if (tane_nr_runs && last->va + last->len == run->va &&
	    last->pa + last->len == run->pa && last->prot == run->prot)
		last->len += run->len;
	else
		tane_append(run->va, run->pa, run->len, run->prot);
}

/* Whether this page is known to be shown. */
bool tane_is_told(unsigned long va)
{
	unsigned int i;

	for (i = 0; i < tane_nr_runs; i++)
		if (va - tane_runs[i].va < tane_runs[i].len)
			return true;
	return false;
}

/* Show a part as the page tables have it; what they have not goes. */
static void tane_show_part(struct mm_struct *mm, const struct tane_part *part)
{
	unsigned long va, end = part->va + part->len, hole = 0;
	struct tane_run run = { }, page;

	for (va = part->va; va < end; va += PAGE_SIZE) {
		page.len = 0;
		if (tane_find_shown(mm, va, &page)) {
			tane_hide(hole ?: va, va);
			hole = 0;
			tane_add_run(&run, &page);
		} else if (!hole) {
			hole = va;
		}
	}
	tane_show(&run);
	if (hole)
		tane_hide(hole, end);
}

/* The pages of a run, within a range, that are not as the page tables have them. */
static unsigned int tane_find_wrong(struct mm_struct *mm,
				    const struct tane_run *run,
				    unsigned long start, unsigned long end,
				    struct tane_part *wrong, unsigned int nr,
				    unsigned int most)
{
	unsigned long va = max(run->va, start);
	struct tane_run page;

	end = min(end, run->va + run->len);
	for (; va < end; va += PAGE_SIZE) {
		if (tane_find_shown(mm, va, &page) &&
		    page.pa == run->pa + (va - run->va) &&
		    page.prot == run->prot)
			continue;
		if (nr && wrong[nr - 1].va + wrong[nr - 1].len == va) {
			wrong[nr - 1].len += PAGE_SIZE;
			continue;
		}
		if (nr == most)
			return nr + 1;
		wrong[nr++] = (struct tane_part){ .va = va, .len = PAGE_SIZE };
	}
	return nr;
}

/*
 * Have a range of the window show nothing but what the page tables of this
 * address space say. False: more than so many parts of it are wrong, and one call
 * for all of it is cheaper.
 */
bool tane_correct(struct mm_struct *mm, unsigned long start, unsigned long end,
		  unsigned int most)
{
	struct tane_part wrong[TANE_MOST_PARTS];
	unsigned int nr = 0, i;

	if (!tane_keeps_account() || tane_more_runs)
		return false;
	for (i = 0; i < tane_nr_runs && nr <= most; i++)
		nr = tane_find_wrong(mm, tane_runs + i, start, end, wrong, nr,
				     most);
	if (nr > most)
		return false;
	for (i = 0; i < nr; i++)
		tane_show_part(mm, wrong + i);
	return true;
}

static struct tane_recent *tane_find_recent(struct mm_struct *mm)
{
	unsigned int i;

	for (i = 0; i < TANE_RECENT; i++)
		if (tane_recent[i].mm == mm)
			return tane_recent + i;
	return NULL;
}

/* An address space leaves the window, and will be back. */
void tane_note_leaving(struct mm_struct *mm)
{
	static unsigned int next;
	struct tane_recent *recent;
	unsigned int i, pages = 0;

	if (!tane_keeps_account())
		return;
	recent = tane_find_recent(mm) ?: tane_recent + next++ % TANE_RECENT;
	recent->mm = mm;
	recent->nr = 0;
	for (i = tane_nr_runs; i-- > 0 && recent->nr < TANE_RECENT_PARTS;) {
		const struct tane_run *run = tane_runs + i;

		pages += run->len >> PAGE_SHIFT;
		if (pages > TANE_RECENT_PAGES)
			break;
		recent->parts[recent->nr++] = (struct tane_part){
			.va = run->va, .len = run->len,
		};
	}
}

/* It is back. What it shares with the one before is there. */
void tane_bring_back(struct mm_struct *mm)
{
	struct tane_recent *recent = tane_find_recent(mm);
	struct tane_run page = { };
	unsigned int i;

	if (!recent || !tane_keeps_account() ||
	    ++recent->times % TANE_RECENT_TIMES == 0)
		return;
	for (i = 0; i < recent->nr; i++) {
		const struct tane_part *part = recent->parts + i;
		struct tane_run run = { };
		unsigned long at;

		for (at = 0; at < part->len; at += PAGE_SIZE)
			if (!tane_is_told(part->va + at) &&
			    tane_find_shown(mm, part->va + at, &page))
				tane_add_run(&run, &page);
		tane_show(&run);
	}
}
