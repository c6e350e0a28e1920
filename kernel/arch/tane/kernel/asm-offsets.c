// SPDX-License-Identifier: GPL-2.0-only
#include <linux/kbuild.h>
#include <linux/mm_types.h>
#include <linux/mmu_context.h>
#include <linux/sched.h>
#include <linux/errno.h>
#include <linux/unistd.h>
#include <asm/ptrace.h>
#include <asm/vcpu.h>
/* By its path from include/: the run queue is declared nowhere else. */
#include <../kernel/sched/sched.h>

int main(void)
{
	OFFSET(VCPU_HOST_SP, tane_vcpu, host_sp);
	OFFSET(VCPU_KERNEL_SP, tane_vcpu, kernel_sp);
	OFFSET(VCPU_SWITCHES, tane_vcpu, switches);
	OFFSET(VCPU_PENDING, tane_vcpu, pending);
	OFFSET(VCPU_IRQ_ENABLED, tane_vcpu, irq_enabled);
	OFFSET(VCPU_CURRENT_TASK, tane_vcpu, current_task);
	OFFSET(VCPU_PERCPU_OFFSET, tane_vcpu, percpu_offset);
	OFFSET(VCPU_BIAS, tane_vcpu, bias);
	OFFSET(VCPU_KICKS, tane_vcpu, kicks);
	OFFSET(VCPU_CALLER, tane_vcpu, caller);
	OFFSET(THREAD_INSIDE, tane_thread, inside);
	OFFSET(CALLER_SELF, tane_caller, self);
	OFFSET(CALLER_SLOT, tane_caller, slot);
	OFFSET(CALLER_STACK, tane_caller, stack);
	OFFSET(CALLER_SERVE, tane_caller, serve);
	OFFSET(CALLER_SAVED, tane_caller, saved);
	OFFSET(CALLER_REGS, tane_caller, regs);
	OFFSET(TASK_FLAGS, task_struct, thread_info.flags);
	OFFSET(RQ_NR_RUNNING, rq, nr_running);
	DEFINE(NR_SYSCALLS, NR_syscalls);
	DEFINE(EXIT_OUTSIDE, TANE_EXIT_OUTSIDE);
	OFFSET(BOOT_OPS, tane_boot, ops);
	OFFSET(OPS_HOST, tane_ops, host);
	BLANK();
	DEFINE(IMAGE_MAGIC, TANE_ABI_MAGIC);
	DEFINE(IMAGE_VERSION, TANE_ABI_VERSION);
	DEFINE(SIZEOF_IMAGE, sizeof(struct tane_image));
	BUILD_BUG_ON(sizeof(struct tane_vcpu) != TANE_VCPU_SIZE);
	BUILD_BUG_ON(sizeof(struct tane_caller) > TANE_VCPU_SIZE);
	BUILD_BUG_ON(offsetof(struct tane_caller, xsave) % 64);
	BUILD_BUG_ON(sizeof_field(struct tane_caller, regs) !=
		     sizeof(struct pt_regs));
	BUILD_BUG_ON(TANE_VCPU_AT != -TANE_VCPU_SIZE);
	DEFINE(SIZEOF_VCPU, sizeof(struct tane_vcpu));
	DEFINE(SIZEOF_THREAD, sizeof(struct tane_thread));
	DEFINE(SIZEOF_OPS, sizeof(struct tane_ops));
	DEFINE(SIZEOF_BOOT, sizeof(struct tane_boot));
	DEFINE(SIZEOF_VIRTIO, sizeof(struct tane_virtio));
	DEFINE(SIZEOF_STRUCT_PAGE, sizeof(struct page));
	DEFINE(SIZEOF_PT_REGS, sizeof(struct pt_regs));
	OFFSET(REGS_R15, pt_regs, r15);
	OFFSET(REGS_R14, pt_regs, r14);
	OFFSET(REGS_R13, pt_regs, r13);
	OFFSET(REGS_R12, pt_regs, r12);
	OFFSET(REGS_RBP, pt_regs, rbp);
	OFFSET(REGS_RBX, pt_regs, rbx);
	OFFSET(REGS_R10, pt_regs, r10);
	OFFSET(REGS_R9, pt_regs, r9);
	OFFSET(REGS_R8, pt_regs, r8);
	OFFSET(REGS_RAX, pt_regs, rax);
	OFFSET(REGS_RDX, pt_regs, rdx);
	OFFSET(REGS_RSI, pt_regs, rsi);
	OFFSET(REGS_RDI, pt_regs, rdi);
	OFFSET(REGS_ORIG_RAX, pt_regs, orig_rax);
	OFFSET(REGS_RIP, pt_regs, rip);
	OFFSET(REGS_RSP, pt_regs, rsp);
	OFFSET(REGS_EFLAGS, pt_regs, eflags);
	return 0;
}
