/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_TANE_ELF_H
#define _ASM_TANE_ELF_H

#include <asm/ptrace.h>

typedef unsigned long elf_greg_t;

#define ELF_NGREG (sizeof(struct pt_regs) / sizeof(elf_greg_t))
typedef elf_greg_t elf_gregset_t[ELF_NGREG];
typedef struct { u8 bytes[512]; } elf_fpregset_t;

#define ELF_CLASS	ELFCLASS64
#define ELF_DATA	ELFDATA2LSB
#define ELF_ARCH	EM_X86_64

#define R_X86_64_NONE		0
#define R_X86_64_64		1
#define R_X86_64_PC32		2
#define R_X86_64_PLT32		4
#define R_X86_64_RELATIVE	8

#define elf_check_arch(x)	((x)->e_machine == EM_X86_64)
#define ELF_EXEC_PAGESIZE	PAGE_SIZE
#define ELF_ET_DYN_BASE		TASK_UNMAPPED_BASE
#define ELF_HWCAP		(0)
#define ELF_PLATFORM		("x86_64")
#define ELF_PLAT_INIT(regs, load_addr)	do { } while (0)
#define SET_PERSONALITY(ex)	set_personality(PER_LINUX)

#endif
