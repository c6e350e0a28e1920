/* SPDX-License-Identifier: GPL-2.0-only */
/* x86's; which function an address is in, a module's too, asm/sections.h has part in. */
#include <x86/include/asm/kprobes.h>
