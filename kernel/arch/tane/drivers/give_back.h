/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _TANE_GIVE_BACK_H
#define _TANE_GIVE_BACK_H

/* mm/page_reporting.c's own, in none of its headers: the least order that it looks at. */
extern unsigned int page_reporting_order;

#endif /* _TANE_GIVE_BACK_H */
