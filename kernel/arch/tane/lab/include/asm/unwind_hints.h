/* SPDX-License-Identifier: GPL-2.0-only */
/* Nobody unwinds by hints. */
#ifndef _ASM_TANE_LAB_UNWIND_HINTS_H
#define _ASM_TANE_LAB_UNWIND_HINTS_H

#define UNWIND_HINT_FUNC
#define UNWIND_HINT_UNDEFINED
#define STACK_FRAME_NON_STANDARD_FP(function)

#endif
