/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Four levels of ordinary Linux page tables. No hardware reads them: the port
 * shows their leaves with the host's mmap() (mm/tlb.c), on a fault or ahead of
 * it, and takes them away when Linux flushes the TLB.
 */
#ifndef _ASM_TANE_PGTABLE_H
#define _ASM_TANE_PGTABLE_H

#include <asm-generic/pgtable-nop4d.h>

#define _PAGE_PRESENT		0x001
#define _PAGE_WRITE		0x002
#define _PAGE_USER		0x004
#define _PAGE_EXEC		0x008
#define _PAGE_ACCESSED		0x020
#define _PAGE_DIRTY		0x040
#define _PAGE_PROTNONE		0x080	/* present to Linux, not to anyone else */
#define _PAGE_SPECIAL		0x100
#define _PAGE_SWP_EXCLUSIVE	0x200

#define _PAGE_TABLE	(_PAGE_PRESENT | _PAGE_WRITE | _PAGE_USER | \
			 _PAGE_ACCESSED | _PAGE_DIRTY)
#define _PAGE_CHG_MASK	(PAGE_MASK | _PAGE_ACCESSED | _PAGE_DIRTY | \
			 _PAGE_SPECIAL)

#define PGDIR_SHIFT	39
#define PTRS_PER_PGD	512
#define PUD_SHIFT	30
#define PTRS_PER_PUD	512
#define PMD_SHIFT	21
#define PTRS_PER_PMD	512
#define PTRS_PER_PTE	512

#define PGDIR_SIZE	(1UL << PGDIR_SHIFT)
#define PGDIR_MASK	(~(PGDIR_SIZE - 1))
#define PUD_SIZE	(1UL << PUD_SHIFT)
#define PUD_MASK	(~(PUD_SIZE - 1))
#define PMD_SIZE	(1UL << PMD_SHIFT)
#define PMD_MASK	(~(PMD_SIZE - 1))

#define USER_PTRS_PER_PGD	256

#ifndef __ASSEMBLY__

#include <asm/machine.h>

#define VMALLOC_START	((unsigned long)tane_boot->vmalloc_start)
#define VMALLOC_END	((unsigned long)tane_boot->vmalloc_end)

extern pgd_t swapper_pg_dir[PTRS_PER_PGD];
extern unsigned long empty_zero_page[PAGE_SIZE / sizeof(unsigned long)];

#define ZERO_PAGE(vaddr)	virt_to_page(empty_zero_page)

#define __PG(bits)		__pgprot(_PAGE_ACCESSED | (bits))
#define __PG_USER(bits)		__PG(_PAGE_PRESENT | _PAGE_USER | (bits))
#define PAGE_NONE		__PG(_PAGE_PROTNONE)
#define PAGE_READONLY		__PG_USER(0)
#define PAGE_READONLY_EXEC	__PG_USER(_PAGE_EXEC)
#define PAGE_COPY		PAGE_READONLY
#define PAGE_COPY_EXEC		PAGE_READONLY_EXEC
#define PAGE_SHARED		__PG_USER(_PAGE_WRITE)
#define PAGE_SHARED_EXEC	__PG_USER(_PAGE_WRITE | _PAGE_EXEC)
#define PAGE_KERNEL		__PG(_PAGE_PRESENT | _PAGE_WRITE | _PAGE_DIRTY)
#define PAGE_KERNEL_EXEC	PAGE_KERNEL
#define PAGE_KERNEL_RO		__PG(_PAGE_PRESENT)

#define set_pte(ptep, pte)	WRITE_ONCE(*(ptep), pte)
#define set_pmd(pmdp, pmd)	WRITE_ONCE(*(pmdp), pmd)
#define set_pud(pudp, pud)	WRITE_ONCE(*(pudp), pud)
#define set_p4d(p4dp, p4d)	WRITE_ONCE(*(p4dp), p4d)

#define PFN_PTE_SHIFT		PAGE_SHIFT
#define pte_pfn(pte)		(pte_val(pte) >> PAGE_SHIFT)
#define pte_page(pte)		pfn_to_page(pte_pfn(pte))
#define pfn_pte(pfn, prot)	\
	__pte(((unsigned long)(pfn) << PAGE_SHIFT) | pgprot_val(prot))
#define mk_pte(page, prot)	pfn_pte(page_to_pfn(page), prot)

#define pte_none(pte)		(!pte_val(pte))
#define pte_present(pte)	(pte_val(pte) & (_PAGE_PRESENT | _PAGE_PROTNONE))
#define pte_clear(mm, addr, ptep)	set_pte(ptep, __pte(0))

#define pmd_none(pmd)		(!pmd_val(pmd))
#define pmd_present(pmd)	(pmd_val(pmd) & _PAGE_PRESENT)
#define pmd_bad(pmd)		((pmd_val(pmd) & ~PAGE_MASK) != _PAGE_TABLE)
#define pmd_clear(pmdp)		set_pmd(pmdp, __pmd(0))
#define pmd_pfn(pmd)		(pmd_val(pmd) >> PAGE_SHIFT)
#define pmd_page(pmd)		pfn_to_page(pmd_pfn(pmd))
#define pmd_page_vaddr(pmd)	((unsigned long)__va(pmd_val(pmd) & PAGE_MASK))

#define pud_none(pud)		(!pud_val(pud))
#define pud_present(pud)	(pud_val(pud) & _PAGE_PRESENT)
#define pud_bad(pud)		((pud_val(pud) & ~PAGE_MASK) != _PAGE_TABLE)
#define pud_clear(pudp)		set_pud(pudp, __pud(0))
#define pud_pfn(pud)		(pud_val(pud) >> PAGE_SHIFT)
#define pud_page(pud)		pfn_to_page(pud_pfn(pud))
#define pud_pgtable(pud)	((pmd_t *)__va(pud_val(pud) & PAGE_MASK))

/* The folded p4d level is the pgd. */
static inline int p4d_none(p4d_t p4d) { return !pgd_val(p4d.pgd); }
static inline int p4d_present(p4d_t p4d)
{
	return pgd_val(p4d.pgd) & _PAGE_PRESENT;
}

static inline int p4d_bad(p4d_t p4d)
{
	return (pgd_val(p4d.pgd) & ~PAGE_MASK) != _PAGE_TABLE;
}

static inline void p4d_clear(p4d_t *p4dp)
{
	set_p4d(p4dp, __p4d(0));
}

static inline pud_t *p4d_pgtable(p4d_t p4d)
{
	return __va(pgd_val(p4d.pgd) & PAGE_MASK);
}

#define p4d_pfn(p4d)		(pgd_val((p4d).pgd) >> PAGE_SHIFT)
#define p4d_page(p4d)		pfn_to_page(p4d_pfn(p4d))

#define TANE_PTE_TEST(name, bit)				\
static inline int pte_##name(pte_t pte)				\
{								\
	return !!(pte_val(pte) & (bit));			\
}

#define TANE_PTE_CHANGE(name, set, clear)			\
static inline pte_t pte_##name(pte_t pte)			\
{								\
	return __pte((pte_val(pte) & ~(unsigned long)(clear)) | (set));	\
}

TANE_PTE_TEST(write, _PAGE_WRITE)
TANE_PTE_TEST(dirty, _PAGE_DIRTY)
TANE_PTE_TEST(young, _PAGE_ACCESSED)
TANE_PTE_TEST(special, _PAGE_SPECIAL)
TANE_PTE_CHANGE(wrprotect, 0, _PAGE_WRITE)
TANE_PTE_CHANGE(mkwrite_novma, _PAGE_WRITE, 0)
TANE_PTE_CHANGE(mkclean, 0, _PAGE_DIRTY)
TANE_PTE_CHANGE(mkdirty, _PAGE_DIRTY, 0)
TANE_PTE_CHANGE(mkold, 0, _PAGE_ACCESSED)
TANE_PTE_CHANGE(mkyoung, _PAGE_ACCESSED, 0)
TANE_PTE_CHANGE(mkspecial, _PAGE_SPECIAL, 0)
TANE_PTE_CHANGE(swp_mkexclusive, _PAGE_SWP_EXCLUSIVE, 0)
TANE_PTE_CHANGE(swp_clear_exclusive, 0, _PAGE_SWP_EXCLUSIVE)
TANE_PTE_TEST(swp_exclusive, _PAGE_SWP_EXCLUSIVE)

static inline pte_t pte_modify(pte_t pte, pgprot_t prot)
{
	return __pte((pte_val(pte) & _PAGE_CHG_MASK) | pgprot_val(prot));
}

/* Swap entries: neither PRESENT nor PROTNONE; type in bits 10-14, offset above. */
#define __swp_type(x)		(((x).val >> 10) & 0x1f)
#define __swp_offset(x)		((x).val >> 15)
#define __swp_entry(type, offset) \
	((swp_entry_t) { ((unsigned long)(type) << 10) | \
			 ((unsigned long)(offset) << 15) })
#define __pte_to_swp_entry(pte)	((swp_entry_t) { pte_val(pte) })
#define __swp_entry_to_pte(x)	((pte_t) { (x).val })

#define TANE_BAD_ENTRY(name, entry)					\
	pr_err("%s:%d: bad " #name " %016lx\n", __FILE__, __LINE__,	\
	       name##_val(entry))
#define pgd_ERROR(entry)	TANE_BAD_ENTRY(pgd, entry)
#define pud_ERROR(entry)	TANE_BAD_ENTRY(pud, entry)
#define pmd_ERROR(entry)	TANE_BAD_ENTRY(pmd, entry)
#define pte_ERROR(entry)	TANE_BAD_ENTRY(pte, entry)

#ifdef CONFIG_TANE_RUN
/* kernel/region.c */
#define HAVE_ARCH_UNMAPPED_AREA
#endif

struct vm_area_struct;
struct vm_fault;
void update_mmu_cache_range(struct vm_fault *vmf, struct vm_area_struct *vma,
			    unsigned long address, pte_t *ptep, unsigned int nr);
#define update_mmu_cache(vma, address, ptep) \
	update_mmu_cache_range(NULL, vma, address, ptep, 1)

/* The entry was right, and the window had not shown it: so it was taken away there. */
#define flush_tlb_fix_spurious_fault(vma, address, ptep) \
	update_mmu_cache(vma, address, ptep)

#endif /* __ASSEMBLY__ */
#endif
