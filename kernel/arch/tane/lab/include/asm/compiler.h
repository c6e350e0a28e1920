/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Code that is independent of its place would look up every name of another file in a
 * table, which nobody makes for a module. All of the kernel is near enough to be found
 * by its distance, which the compiler takes where it knows that nobody replaces a name.
 */
#ifndef _ASM_TANE_LAB_COMPILER_H
#define _ASM_TANE_LAB_COMPILER_H

#ifdef MODULE
#include <linux/hidden.h>
#endif

#endif
