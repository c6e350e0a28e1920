// SPDX-License-Identifier: GPL-2.0-only
#include <linux/kbuild.h>
#include <linux/mm_types.h>
#include <linux/sched.h>
#include <asm/ptrace.h>
#include <asm/vcpu.h>

int main(void)
{
	OFFSET(VCPU_HOST_SP, tane_vcpu, host_sp);
	OFFSET(VCPU_KERNEL_SP, tane_vcpu, kernel_sp);
	OFFSET(VCPU_SWITCHES, tane_vcpu, switches);
	OFFSET(BOOT_OPS, tane_boot, ops);
	OFFSET(OPS_HOST, tane_ops, host);
	BLANK();
	DEFINE(IMAGE_MAGIC, TANE_ABI_MAGIC);
	DEFINE(IMAGE_VERSION, TANE_ABI_VERSION);
	DEFINE(SIZEOF_IMAGE, sizeof(struct tane_image));
	DEFINE(SIZEOF_VCPU, sizeof(struct tane_vcpu));
	DEFINE(SIZEOF_THREAD, sizeof(struct tane_thread));
	DEFINE(SIZEOF_OPS, sizeof(struct tane_ops));
	DEFINE(SIZEOF_BOOT, sizeof(struct tane_boot));
	DEFINE(SIZEOF_VIRTIO, sizeof(struct tane_virtio));
	DEFINE(SIZEOF_STRUCT_PAGE, sizeof(struct page));
	DEFINE(SIZEOF_PT_REGS, sizeof(struct pt_regs));
	OFFSET(REGS_RIP, pt_regs, rip);
	OFFSET(REGS_RSP, pt_regs, rsp);
	OFFSET(REGS_EFLAGS, pt_regs, eflags);
	return 0;
}
