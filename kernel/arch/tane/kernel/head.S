/* SPDX-License-Identifier: GPL-2.0-only */
/* The first bytes of the image: struct tane_image, in host.h's order. */
#include <linux/linkage.h>
#include <asm/asm-offsets.h>
#include <asm/page.h>
#include <asm/thread_info.h>

#ifdef CONFIG_SMP
#define MOST_VCPUS CONFIG_NR_CPUS
#else
#define MOST_VCPUS 1
#endif

	/* Offsets, so that the header itself needs no relocation. */
	.macro offset symbol
	.long	\symbol - tane_image
	.long	0
	.endm

	.section .tane_image, "ax"
tane_image:
	.quad	IMAGE_MAGIC
	.long	IMAGE_VERSION
	.long	SIZEOF_IMAGE
	.long	SIZEOF_VCPU
	.long	SIZEOF_THREAD
	.long	SIZEOF_OPS
	.long	SIZEOF_BOOT
	.long	SIZEOF_VIRTIO
	.long	MOST_VCPUS
	offset	_text
	offset	__tane_text_end
	offset	__tane_rodata_end
	offset	__tane_data_end
	offset	_end
	offset	__rela_start
	offset	__rela_end
	offset	tane_gate_start
	offset	tane_gate_call
	offset	tane_gate_enter
	offset	tane_trap_fault
	offset	tane_trap_invalid
	offset	tane_trap_interrupt
	offset	linux_banner
	offset	__start___ex_table
	offset	__stop___ex_table
	.quad	SIZEOF_STRUCT_PAGE
	offset	tane_gate_program
	offset	tane_program_left
	.if . - tane_image != SIZEOF_IMAGE
	.error "struct tane_image and head.S differ"
	.endif
