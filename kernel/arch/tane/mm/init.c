// SPDX-License-Identifier: GPL-2.0-only
/* RAM is one block from physical address 0, the image at its start. */
#include <linux/init.h>
#include <linux/memblock.h>
#include <linux/mm.h>
#include <asm/machine.h>
#include <asm/sections.h>
#include <asm/setup.h>
#include <asm/tlbflush.h>
#include "mm.h"

pgd_t swapper_pg_dir[PTRS_PER_PGD] __page_aligned_bss;
unsigned long empty_zero_page[PAGE_SIZE / sizeof(unsigned long)]
	__page_aligned_bss;
EXPORT_SYMBOL(empty_zero_page);

void __init tane_init_memory(void)
{
	unsigned long max_zone_pfn[MAX_NR_ZONES] = { 0 };
	unsigned long end = tane_boot->ram_size;

	setup_initial_init_mm(_stext, _etext, _edata, _end);
	memblock_add(0, end);
	memblock_reserve(0, __pa(_end));

	min_low_pfn = 0;
	max_low_pfn = PFN_DOWN(end);
	max_pfn = max_low_pfn;
	high_memory = __va(end);
	set_max_mapnr(max_pfn);
	max_zone_pfn[ZONE_NORMAL] = max_low_pfn;
	free_area_init(max_zone_pfn);
	/* Or memory is lost for struct pages that are smaller than the host knows. */
	if (__pa(mem_map) >= tane_boot->shown_end + PMD_SIZE ||
	    __pa(mem_map + ALIGN(max_pfn, MAX_ORDER_NR_PAGES)) != end)
		panic("struct pages are not what RAM ends with");
}

void __init mem_init(void)
{
	/*
	 * The host cannot show elsewhere what it has from shown_end on: a file's
	 * page there would be another page in a mapping. Boot's own tables,
	 * struct pages first, are there for good. Of the image's frames the
	 * zero page alone is ever shown.
	 */
	if (__pa(empty_zero_page) < tane_boot->shown_start)
		panic("the host cannot show the zero page");
	memblock_reserve(tane_boot->shown_end,
			 tane_boot->ram_size - tane_boot->shown_end);
	memblock_free_all();
}

/* Init's frames are not RAM: code and data are mapped from the image's file. */
void free_initmem(void)
{
}

/* Constants, and what only init wrote. Code is read-only from the start. */
void mark_rodata_ro(void)
{
	unsigned long start = (unsigned long)__start_rodata;
	unsigned long end = (unsigned long)__tane_rodata_end;
	int error = tane_host(map, start, __pa(start), end - start,
			      TANE_PROT_READ);

	if (error)
		pr_warn("The host cannot protect constants: error %d\n", error);
}

static const pgprot_t protection_map[16] = {
	[VM_NONE]					= PAGE_NONE,
	[VM_READ]					= PAGE_READONLY,
	[VM_WRITE]					= PAGE_COPY,
	[VM_WRITE | VM_READ]				= PAGE_COPY,
	[VM_EXEC]					= PAGE_READONLY_EXEC,
	[VM_EXEC | VM_READ]				= PAGE_READONLY_EXEC,
	[VM_EXEC | VM_WRITE]				= PAGE_COPY_EXEC,
	[VM_EXEC | VM_WRITE | VM_READ]			= PAGE_COPY_EXEC,
	[VM_SHARED]					= PAGE_NONE,
	[VM_SHARED | VM_READ]				= PAGE_READONLY,
	[VM_SHARED | VM_WRITE]				= PAGE_SHARED,
	[VM_SHARED | VM_WRITE | VM_READ]		= PAGE_SHARED,
	[VM_SHARED | VM_EXEC]				= PAGE_READONLY_EXEC,
	[VM_SHARED | VM_EXEC | VM_READ]			= PAGE_READONLY_EXEC,
	[VM_SHARED | VM_EXEC | VM_WRITE]		= PAGE_SHARED_EXEC,
	[VM_SHARED | VM_EXEC | VM_WRITE | VM_READ]	= PAGE_SHARED_EXEC
};
DECLARE_VM_GET_PAGE_PROT
