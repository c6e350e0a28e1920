/* SPDX-License-Identifier: GPL-2.0-only */
/* signal.c, regset.c: vector registers as XSAVE stores them, in standard format. */
#ifndef _TANE_KERNEL_XSTATE_H
#define _TANE_KERNEL_XSTATE_H

#include <linux/build_bug.h>
#include <linux/types.h>
#include <uapi/asm/sigcontext.h>

/* Intel SDM volume 1, 13.4: the legacy area, then the header. */
#define FXSAVE_SIZE	512
#define XSAVE_HEADER	64
#define MXCSR_DEFAULT	0x1f80
#define MXCSR_MASK_DEFAULT	0xffbf
#define FCW_DEFAULT	0x37f

/* The components of the legacy area: x87 and SSE. */
#define XSTATE_X87	1
#define XSTATE_SSE	2
#define XSTATE_LEGACY	(XSTATE_X87 | XSTATE_SSE)

struct tane_xstate {
	struct _fpstate_64 fx;
	u64 present;
	u64 compacted;
	u64 reserved[6];
};

static_assert(sizeof(struct tane_xstate) == FXSAVE_SIZE + XSAVE_HEADER);

#endif
