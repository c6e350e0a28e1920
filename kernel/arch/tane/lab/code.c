// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pages of code: those of the kernel's text, which are opened for a change and closed
 * again, and those behind it that the image has for code that is made while it runs
 * (vmlinux.lds.S), near enough for a relative jump, and for modules with their data.
 * These are either written or run.
 */
#include <linux/bitmap.h>
#include <linux/execmem.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/set_memory.h>
#include <linux/string.h>
#include <asm/code.h>
#include <asm/machine.h>
#include <asm/text-patching.h>

#define MADE_PAGES	(CONFIG_TANE_LAB_CODE << (20 - PAGE_SHIFT))

static DECLARE_BITMAP(tane_made, MADE_PAGES);
/* By its first page: how many an area has. */
static u16 tane_made_len[MADE_PAGES];
static DEFINE_MUTEX(tane_made_lock);

static int tane_protect(unsigned long start, size_t len, u32 prot)
{
	unsigned long end = PAGE_ALIGN(start + len);

	start &= PAGE_MASK;
	return tane_host(map, start, __pa(start), end - start, prot);
}

static void tane_must_protect(void *start, size_t len, u32 prot)
{
	int error = tane_protect((unsigned long)start, len, prot);

	if (error)
		panic("tane: the host lets no code change here: error %d", error);
}

void tane_open_code(void *start, size_t len)
{
	tane_must_protect(start, len,
			  TANE_PROT_READ | TANE_PROT_WRITE | TANE_PROT_EXEC);
}

void tane_close_code(void *start, size_t len)
{
	tane_must_protect(start, len, TANE_PROT_READ | TANE_PROT_EXEC);
}

static bool tane_is_made(unsigned long address, int pages)
{
	return address >= (unsigned long)tane_made_start &&
	       address + pages * PAGE_SIZE <= (unsigned long)tane_made_end;
}

static int tane_set(unsigned long address, int pages, u32 prot)
{
	/* Others are not code, and stay what they are. */
	if (!tane_is_made(address, pages))
		return 0;
	return tane_protect(address, pages * PAGE_SIZE, prot);
}

int set_memory_rox(unsigned long address, int pages)
{
	return tane_set(address, pages, TANE_PROT_READ | TANE_PROT_EXEC);
}

int set_memory_x(unsigned long address, int pages)
{
	return set_memory_rox(address, pages);
}

/* A module's constants. */
int set_memory_ro(unsigned long address, int pages)
{
	return tane_set(address, pages, TANE_PROT_READ);
}

int set_memory_rw(unsigned long address, int pages)
{
	return tane_set(address, pages, TANE_PROT_READ | TANE_PROT_WRITE);
}

/* Who asks has data, which nobody could ever run: it stays as writable as it is. */
int set_memory_nx(unsigned long address, int pages)
{
	return 0;
}

/* In the place of Linux's own, whose areas are anywhere in the vmalloc window. */
void *__wrap_execmem_alloc(enum execmem_type type, size_t size)
{
	unsigned long first, pages = DIV_ROUND_UP(size, PAGE_SIZE);
	char *area = NULL;

	if (!pages || pages > U16_MAX)
		return NULL;
	mutex_lock(&tane_made_lock);
	first = bitmap_find_next_zero_area(tane_made, MADE_PAGES, 0, pages, 0);
	if (first < MADE_PAGES) {
		area = tane_made_start + first * PAGE_SIZE;
		if (set_memory_rw((unsigned long)area, pages)) {
			area = NULL;
		} else {
			bitmap_set(tane_made, first, pages);
			tane_made_len[first] = pages;
			memset(area, INT3_INSN_OPCODE, pages * PAGE_SIZE);
		}
	}
	mutex_unlock(&tane_made_lock);
	if (!area)
		pr_warn_ratelimited("tane: no room for %zu bytes of code\n", size);
	return area;
}

/* What is left of the code can be written, but nobody can run it. */
void __wrap_execmem_free(void *area)
{
	unsigned long first, pages;

	if (!area)
		return;
	first = ((char *)area - tane_made_start) >> PAGE_SHIFT;
	mutex_lock(&tane_made_lock);
	pages = tane_made_len[first];
	if (set_memory_rw((unsigned long)area, pages))
		pr_warn("tane: freed code at %px can still be run\n", area);
	bitmap_clear(tane_made, first, pages);
	mutex_unlock(&tane_made_lock);
}
