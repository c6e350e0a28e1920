// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the window of programs shows, region by region. A flush then takes away only
 * what the page tables no longer say, and another process finds there what it shares
 * with the one before, and what it had shown itself when it was last there: a page
 * that comes back by a fault costs a signal besides.
 *
 * All of this is the lock's of the window. Page tables are looked at without a lock
 * of theirs: they are freed after a flush, which takes this one.
 */
#include <linux/mm.h>
#include <linux/slab.h>
#include <asm/machine.h>
#include <asm/pgtable.h>
#include "../kernel/window.h"
#include "mm.h"

/* Beyond these it is known only that there is more. */
#define TANE_RUNS	254

/* What is shown in a region, the newest last, no page twice. */
struct tane_account {
	unsigned int nr;
	bool more;
	struct tane_run runs[TANE_RUNS];
};

/* They stay: programs come and go. */
static struct tane_account *tane_accounts[TANE_REGIONS];

struct tane_part {
	unsigned long va;
	unsigned long len;
};

/*
 * What so many address spaces had shown when they left a region, the newest of it.
 * Of one that has ended and whose place another took it does no harm. Which of it
 * was used cannot be seen: now and then nothing is brought back, and faults tell.
 */
#define TANE_RECENT		64
#define TANE_RECENT_PARTS	10
#define TANE_RECENT_PAGES	512
#define TANE_RECENT_TIMES	16

struct tane_recent {
	struct mm_struct *mm;
	unsigned int region;
	unsigned int times;
	unsigned int nr;
	struct tane_part parts[TANE_RECENT_PARTS];
};

static struct tane_recent tane_recent[TANE_RECENT];

/* Of a region that shows nothing yet. Without memory for it nothing is known. */
void tane_open_account(unsigned int at)
{
	struct tane_account **account = tane_accounts + at;

	if (!*account)
		*account = kzalloc(sizeof(**account), GFP_ATOMIC | __GFP_NOWARN);
}

/* That of the region with this address; NULL outside of the window too. */
static struct tane_account *tane_account(unsigned long va)
{
	if (va < tane_boot->program_start || va >= tane_boot->program_end)
		return NULL;
	return tane_accounts[va >> TANE_REGION_SHIFT];
}

static void tane_append(struct tane_account *account, unsigned long va,
			unsigned long pa, unsigned long len, u32 prot)
{
	if (account->nr == TANE_RUNS) {
		account->more = true;
		return;
	}
	account->runs[account->nr++] = (struct tane_run){
		.va = va, .pa = pa, .len = len, .prot = prot,
	};
}

static void tane_forget(struct tane_account *account, unsigned long start,
			unsigned long end)
{
	unsigned int i;

	for (i = account->nr; i-- > 0;) {
		struct tane_run *run = account->runs + i, rest = *run;
		unsigned long run_end = run->va + run->len;

		if (end <= run->va || start >= run_end)
			continue;
		rest.va = end;
		rest.pa += end - run->va;
		rest.len = run_end - end;
		if (run->va < start) {
			run->len = start - run->va;
			if (end < run_end)
				tane_append(account, rest.va, rest.pa, rest.len,
					    rest.prot);
		} else if (end < run_end) {
			*run = rest;
		} else {
			memmove(run, run + 1,
				(--account->nr - i) * sizeof(*run));
		}
	}
}

void tane_note_hidden(unsigned long start, unsigned long end)
{
	unsigned long at, last;

	if (start >= tane_boot->program_end || end <= tane_boot->program_start)
		return;
	at = start >> TANE_REGION_SHIFT;
	last = (end - 1) >> TANE_REGION_SHIFT;
	for (; at <= last && at < TANE_REGIONS; at++) {
		struct tane_account *account = tane_accounts[at];
		unsigned long first = max(at << TANE_REGION_SHIFT,
					  (unsigned long)tane_boot->program_start);

		if (!account)
			continue;
		if (start <= first && end >= (at + 1) << TANE_REGION_SHIFT) {
			account->nr = 0;
			account->more = false;
		} else {
			tane_forget(account, start, end);
		}
	}
}

void tane_note_shown(const struct tane_run *run)
{
	struct tane_account *account = tane_account(run->va);
	struct tane_run *last;

	if (!account)
		return;
	tane_forget(account, run->va, run->va + run->len);
	last = account->runs + account->nr - 1;
	if (account->nr && last->va + last->len == run->va &&
	    last->pa + last->len == run->pa && last->prot == run->prot)
		last->len += run->len;
	else
		tane_append(account, run->va, run->pa, run->len, run->prot);
}

/* False: nothing is shown in this region. */
bool tane_shows_anything(unsigned int region)
{
	struct tane_account *account = tane_accounts[region];

	return !account || account->nr || account->more;
}

/* Whether this page is known to be shown. */
bool tane_is_told(unsigned long va)
{
	struct tane_account *account = tane_account(va);
	unsigned int i;

	for (i = 0; account && i < account->nr; i++)
		if (va - account->runs[i].va < account->runs[i].len)
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
 * Have a range of a region show nothing but what the page tables of this address
 * space say. False: more than so many parts of it are wrong, and one call for all
 * of it is cheaper.
 */
bool tane_correct(struct mm_struct *mm, unsigned int region, unsigned long start,
		  unsigned long end, unsigned int most)
{
	struct tane_account *account = tane_accounts[region];
	struct tane_part wrong[TANE_MOST_PARTS];
	unsigned int nr = 0, i;

	if (!account || account->more)
		return false;
	for (i = 0; i < account->nr && nr <= most; i++)
		nr = tane_find_wrong(mm, account->runs + i, start, end, wrong,
				     nr, most);
	if (nr > most)
		return false;
	for (i = 0; i < nr; i++)
		tane_show_part(mm, wrong + i);
	return true;
}

static struct tane_recent *tane_find_recent(struct mm_struct *mm,
					    unsigned int region)
{
	unsigned int i;

	for (i = 0; i < TANE_RECENT; i++)
		if (tane_recent[i].mm == mm && tane_recent[i].region == region)
			return tane_recent + i;
	return NULL;
}

/* An address space leaves this region, and will be back. */
void tane_note_leaving(struct mm_struct *mm, unsigned int region)
{
	static unsigned int next;
	struct tane_account *account = tane_accounts[region];
	struct tane_recent *recent;
	unsigned int i, pages = 0;

	if (!account)
		return;
	recent = tane_find_recent(mm, region) ?:
		 tane_recent + next++ % TANE_RECENT;
	recent->mm = mm;
	recent->region = region;
	recent->nr = 0;
	for (i = account->nr; i-- > 0 && recent->nr < TANE_RECENT_PARTS;) {
		const struct tane_run *run = account->runs + i;

		pages += run->len >> PAGE_SHIFT;
		if (pages > TANE_RECENT_PAGES)
			break;
		recent->parts[recent->nr++] = (struct tane_part){
			.va = run->va, .len = run->len,
		};
	}
}

/* It is back. What it shares with the one before is there. */
void tane_bring_back(struct mm_struct *mm, unsigned int region)
{
	struct tane_recent *recent = tane_find_recent(mm, region);
	struct tane_run page = { };
	unsigned int i;

	if (!recent || ++recent->times % TANE_RECENT_TIMES == 0)
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
