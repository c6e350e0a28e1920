/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_TANE_PTRACE_H
#define _ASM_TANE_PTRACE_H

#include <uapi/asm/ptrace.h>

#ifndef __ASSEMBLY__

#ifdef CONFIG_TANE_RUN
/* The requests that x86-64 has besides, and what is needed for them. */
#include <asm/ptrace-abi.h>

#define arch_has_single_step()	(1)
#define ARCH_HAS_USER_SINGLE_STEP_REPORT
#endif

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
