/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_TANE_PTRACE_H
#define _ASM_TANE_PTRACE_H

#include <uapi/asm/ptrace.h>

#ifndef __ASSEMBLY__

#define user_mode(regs)			((regs)->cs != 0)
#define instruction_pointer(regs)	((regs)->rip)
#define instruction_pointer_set(regs, ip)	((regs)->rip = (ip))
#define profile_pc(regs)		instruction_pointer(regs)
#define user_stack_pointer(regs)	((regs)->rsp)
#define kernel_stack_pointer(regs)	((regs)->rsp)
#define frame_pointer(regs)		((regs)->rbp)
#define regs_return_value(regs)		((regs)->rax)

#endif
#endif
