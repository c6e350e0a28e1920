/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_TANE_CACHE_H
#define _ASM_TANE_CACHE_H

#define L1_CACHE_SHIFT	6
#define L1_CACHE_BYTES	64

#endif
