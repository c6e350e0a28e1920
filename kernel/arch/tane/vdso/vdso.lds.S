/* SPDX-License-Identifier: GPL-2.0-only */
/* The pages with the time lie before it (map.c). */
#include <asm/page.h>
#include <asm/vdso.h>

OUTPUT_ARCH(i386:x86-64)

SECTIONS
{
	PROVIDE(_vdso_data = . - TANE_VVAR_PAGES * PAGE_SIZE);
	PROVIDE(_timens_data = _vdso_data + PAGE_SIZE);
	. = SIZEOF_HEADERS;

	.hash		: { *(.hash) }			:text
	.gnu.hash	: { *(.gnu.hash) }
	.dynsym		: { *(.dynsym) }
	.dynstr		: { *(.dynstr) }
	.gnu.version	: { *(.gnu.version) }
	.gnu.version_d	: { *(.gnu.version_d) }
	.gnu.version_r	: { *(.gnu.version_r) }
	.dynamic	: { *(.dynamic) }		:text	:dynamic
	.rodata		: { *(.rodata .rodata.*) }	:text
	.note		: { *(.note.gnu.build-id) }	:text	:note
	.eh_frame_hdr	: { *(.eh_frame_hdr) }		:text	:eh_frame_hdr
	.eh_frame	: { KEEP (*(.eh_frame)) }	:text
	. = ALIGN(16);
	.text		: { *(.text .text.*) }		:text

	/DISCARD/	: {
		*(.discard .discard.* .comment .note.* .altinstructions)
		*(.data .data.* .bss .bss.* __bug_table)
	}
}

PHDRS
{
	text		PT_LOAD		FLAGS(5) FILEHDR PHDRS;
	dynamic		PT_DYNAMIC	FLAGS(4);
	note		PT_NOTE		FLAGS(4);
	eh_frame_hdr	PT_GNU_EH_FRAME;
}

/* As x86-64's. */
VERSION
{
	LINUX_2.6 {
	global:
		clock_gettime;
		__vdso_clock_gettime;
		clock_getres;
		__vdso_clock_getres;
		gettimeofday;
		__vdso_gettimeofday;
		getcpu;
		__vdso_getcpu;
		time;
		__vdso_time;
	local: *;
	};
}
