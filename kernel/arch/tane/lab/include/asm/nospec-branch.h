/* SPDX-License-Identifier: GPL-2.0-only */
/* Returns are plain ones: nothing to count, nothing to annotate. */
#ifndef _ASM_TANE_LAB_NOSPEC_BRANCH_H
#define _ASM_TANE_LAB_NOSPEC_BRANCH_H

#include <linux/objtool.h>
#include <asm/alternative.h>

#ifdef __ASSEMBLY__
#define CALL_DEPTH_ACCOUNT
#define ANNOTATE_UNRET_SAFE
#endif

#endif
