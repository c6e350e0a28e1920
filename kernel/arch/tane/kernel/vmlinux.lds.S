/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The image starts at address 0 = physical address 0 = tane_boot.base. All
 * code comes first, the init code too: the host maps it from the file, so its
 * frames are not RAM and cannot be freed.
 */
#define LOAD_OFFSET 0
#define RUNTIME_DISCARD_EXIT

#include <asm/page.h>
#include <asm/cache.h>
#include <asm/thread_info.h>
#include <asm-generic/vmlinux.lds.h>

OUTPUT_FORMAT("elf64-x86-64")
OUTPUT_ARCH(i386:x86-64)
ENTRY(_text)

jiffies = jiffies_64;

PHDRS {
	text PT_LOAD FLAGS(5);
	data PT_LOAD FLAGS(6);
	note PT_NOTE FLAGS(4);
}

SECTIONS
{
	. = 0;
	_text = .;
	.head.text : { KEEP(*(.tane_image)) HEAD_TEXT } :text
	.text : {
		_stext = .;
#ifdef CONFIG_TANE_LAB
		ENTRY_TEXT
#endif
		TEXT_TEXT
		SCHED_TEXT
		LOCK_TEXT
		KPROBES_TEXT
		IRQENTRY_TEXT
		SOFTIRQENTRY_TEXT
		*(.fixup)
		_etext = .;
	}
	INIT_TEXT_SECTION(PAGE_SIZE)
	.exit.text : { EXIT_TEXT }
	. = ALIGN(PAGE_SIZE);
#ifdef CONFIG_TANE_LAB
	/* Code that is made while the kernel runs; until then int3. */
	.made.text : {
		tane_made_start = .;
		BYTE(0xcc)
		. = tane_made_start + (CONFIG_TANE_LAB_CODE << 20);
		tane_made_end = .;
	} =0xcccccccc
#endif
	__tane_text_end = .;

	.data_start : { BYTE(0) } :data
	_sdata = .;
	RO_DATA(PAGE_SIZE)
	EXCEPTION_TABLE(16)
	.rela.dyn : { *(.rela .rela.*) }
	.relr.dyn : { *(.relr.dyn) }
	/* Not inside: the linker adds entries after it has read the section. */
	__rela_start = ADDR(.relr.dyn);
	__rela_end = __rela_start + SIZEOF(.relr.dyn);
	.dynamic : { *(.dynamic) }
	.got : { *(.got) *(.got.plt) *(.igot) *(.igot.plt) }
	. = ALIGN(PAGE_SIZE);
	__tane_rodata_end = .;

	RW_DATA(L1_CACHE_BYTES, PAGE_SIZE, THREAD_SIZE)
	.data.rel : { *(.data.rel .data.rel.*) }
	_edata = .;

	. = ALIGN(PAGE_SIZE);
	__init_begin = .;
	INIT_DATA_SECTION(16)
	.exit.data : { EXIT_DATA }
	PERCPU_SECTION(L1_CACHE_BYTES)
	.altinstructions : { *(.altinstructions) *(.altinstr_replacement) *(.smp_locks) }
	. = ALIGN(PAGE_SIZE);
	__init_end = .;
	__tane_data_end = .;

	BSS_SECTION(PAGE_SIZE, PAGE_SIZE, PAGE_SIZE)
	_end = .;

	STABS_DEBUG
	DWARF_DEBUG
	ELF_DETAILS

	DISCARDS
	/DISCARD/ : {
		*(.interp .dynsym .dynstr .hash .gnu.hash .gnu.version*)
		*(.eh_frame .eh_frame_hdr)
	}
}
