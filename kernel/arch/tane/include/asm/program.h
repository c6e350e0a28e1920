/* SPDX-License-Identifier: GPL-2.0-only */
/* kernel/program.c, kernel/signal.c: what runs ordinary programs. */
#ifndef _ASM_TANE_PROGRAM_H
#define _ASM_TANE_PROGRAM_H

#include <linux/types.h>

struct mm_struct;
struct tane_program;

/* 64-bit code and data of user mode, as Linux numbers the segments on x86-64. */
#define USER_CS	0x33
#define USER_DS	0x2b

bool tane_may_exec(void);
void tane_init_xstate(struct tane_program *program);

/* kernel/text.c: its code. */
long tane_text_request(u32 nr, unsigned long address, void *bytes, size_t len);

/* kernel/region.c: which addresses of the window an address space has. */
void tane_claim_home(struct mm_struct *mm);
void tane_copy_claims(struct mm_struct *from, struct mm_struct *to);
void tane_claim(struct mm_struct *mm, unsigned long addr, unsigned long len);
unsigned long tane_home(struct mm_struct *mm);

/* kernel/window.c: whose memory the window shows. */
void tane_enter_program(struct mm_struct *mm);
void tane_take_window(struct mm_struct *mm);
void tane_leave_window(void);
void tane_return_window(void);
void tane_exit_mmap(struct mm_struct *mm);

#endif
