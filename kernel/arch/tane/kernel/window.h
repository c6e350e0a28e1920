/* SPDX-License-Identifier: GPL-2.0-only */
/* window.c, region.c, turns.c: what the window of programs shows, and whose turn it is. */
#ifndef _TANE_KERNEL_WINDOW_H
#define _TANE_KERNEL_WINDOW_H

#include <linux/bitmap.h>
#include <linux/ktime.h>
#include <linux/mm_types.h>
#include <linux/spinlock.h>

/*
 * Inner to the locks of page tables. Entries of these are shown, and what a flush
 * takes away is taken away, under it.
 */
extern raw_spinlock_t tane_window_lock;

/* A piece of the window, which shows memory of one address space at a time. */
struct tane_region {
	struct mm_struct *shown;	/* whose, or nobody's */
	unsigned int claims;	/* how many have memory here */
	ktime_t since;		/* when it was shown, */
	ktime_t began;		/* and when its turn began */
};

extern struct tane_region tane_regions[TANE_REGIONS];

void tane_give_claims(struct mm_struct *mm);

#ifdef CONFIG_TANE_RUN
static inline bool tane_overlap(const struct mm_struct *a,
				const struct mm_struct *b)
{
	return bitmap_intersects(a->context.claims, b->context.claims,
				 TANE_REGIONS);
}
#endif

/* window.c: of the current task, under the lock */
bool tane_try_show(struct mm_struct *mm);
void tane_hold(struct mm_struct *mm);
void tane_let_go(void);

/* turns.c */
enum tane_doing {
	TANE_WAITS,
	TANE_MAY_GO_ON,	/* in the program, as soon as the host runs its thread */
	TANE_COMPUTES,	/* in the program or in a call */
};

enum tane_doing tane_does(struct mm_struct *mm);
void tane_wake_waiters(struct mm_struct *mm);
void tane_have_window(struct mm_struct *mm);

/* mm/tlb_user.c */
void tane_show_region(unsigned int at, struct mm_struct *prev,
		      struct mm_struct *next);
void tane_hide_region(unsigned int at);
/* mm/shown.c: of one that shows nothing yet */
void tane_open_account(unsigned int at);

/* program.c: what its host thread and it tell each other */
void tane_account_program(void);
void tane_tell_tid(void);

void tane_reschedule_program(bool yields);
void tane_reschedule_outside(void);

#endif
