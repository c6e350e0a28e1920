// SPDX-License-Identifier: GPL-2.0-only
/* x86-64's numbers, from the tree's own table. */
#include <linux/linkage.h>
#include <linux/syscalls.h>
#include <asm/syscall.h>

/* Calls about the processor, which is the host's business. */
#ifdef CONFIG_TANE_RUN
asmlinkage long sys_arch_prctl(int option, unsigned long addr);
asmlinkage long sys_rt_sigreturn(void);
#else
#define sys_arch_prctl		sys_ni_syscall
#define sys_rt_sigreturn	sys_ni_syscall
#endif
#define sys_iopl		sys_ni_syscall
#define sys_ioperm		sys_ni_syscall
#define sys_modify_ldt		sys_ni_syscall
#define sys_map_shadow_stack	sys_ni_syscall
#define sys_uretprobe		sys_ni_syscall

/* kernel/entry.c: a thread of the host's waits for its result. */
asmlinkage long sys_tane_exit(int code);
#define sys_exit		sys_tane_exit

#ifdef CONFIG_TANE_SECCOMP
/* oci/seccomp.c: filters are of programs. */
asmlinkage long sys_tane_seccomp(unsigned int op, unsigned int flags,
				 void __user *args);
asmlinkage long sys_tane_prctl(int option, unsigned long arg2,
			       unsigned long arg3, unsigned long arg4,
			       unsigned long arg5);
#define sys_seccomp		sys_tane_seccomp
#define sys_prctl		sys_tane_prctl
#endif

SYSCALL_DEFINE6(mmap, unsigned long, addr, unsigned long, len,
		unsigned long, prot, unsigned long, flags,
		unsigned long, fd, unsigned long, off)
{
	if (offset_in_page(off))
		return -EINVAL;
	return ksys_mmap_pgoff(addr, len, prot, flags, fd, off >> PAGE_SHIFT);
}

/* Every entry is called with six words; a callee takes those it knows. */
#define __SYSCALL(nr, call) \
	[nr] = (sys_call_ptr_t)(unsigned long)call,
#define __SYSCALL_NORETURN	__SYSCALL

const sys_call_ptr_t sys_call_table[NR_syscalls] = {
	[0 ... NR_syscalls - 1] = (sys_call_ptr_t)(unsigned long)sys_ni_syscall,
#include <asm/syscall_table_64.h>
};
