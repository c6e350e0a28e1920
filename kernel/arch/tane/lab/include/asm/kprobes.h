/* SPDX-License-Identifier: GPL-2.0-only */
#include <x86/include/asm/kprobes.h>
