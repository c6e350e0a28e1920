/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_TANE_ELF_H
#define _ASM_TANE_ELF_H

#include <asm/cpufeature.h>
#include <asm/program.h>
#include <asm/ptrace.h>
#include <asm/user.h>

typedef unsigned long elf_greg_t;

/* As x86-64's core dumps have them. */
#define CORE_DUMP_USE_REGSET
#define ELF_NGREG (sizeof(struct user_regs_struct) / sizeof(elf_greg_t))
typedef elf_greg_t elf_gregset_t[ELF_NGREG];
typedef struct user_i387_struct elf_fpregset_t;

#define ELF_CLASS	ELFCLASS64
#define ELF_DATA	ELFDATA2LSB
#define ELF_ARCH	EM_X86_64

#define R_X86_64_NONE		0
#define R_X86_64_64		1
#define R_X86_64_PC32		2
#define R_X86_64_PLT32		4
#define R_X86_64_RELATIVE	8

#ifdef CONFIG_TANE_RUN
/* Asked before anything is changed. */
#define elf_check_arch(x) \
	((x)->e_machine == EM_X86_64 && tane_may_exec())
#else
#define elf_check_arch(x)	((x)->e_machine == EM_X86_64)
#endif
#define ELF_EXEC_PAGESIZE	PAGE_SIZE
#define ELF_ET_DYN_BASE		(tane_home(current->mm) + TANE_CODE_OFFSET)
/* As arch/x86: what cpuid(1) has in edx. */
#define ELF_HWCAP		(tane_cpu_features[X86_FEATURE_FPU / 32])
#define ELF_PLATFORM		("x86_64")
/* A program begins with nothing in its registers. */
#define ELF_PLAT_INIT(regs, load_addr)	memset(regs, 0, sizeof(*(regs)))

#ifdef CONFIG_TANE_RUN
unsigned long tane_signal_frame_size(void);
#define ARCH_DLINFO							\
do {									\
	if (current->mm->context.vdso)					\
		NEW_AUX_ENT(AT_SYSINFO_EHDR, current->mm->context.vdso);	\
	NEW_AUX_ENT(AT_MINSIGSTKSZ, tane_signal_frame_size());		\
} while (0)

struct linux_binprm;
#define ARCH_HAS_SETUP_ADDITIONAL_PAGES	1
int arch_setup_additional_pages(struct linux_binprm *bprm, int uses_interp);
#endif

#define SET_PERSONALITY(ex)	set_personality(PER_LINUX)

#endif
