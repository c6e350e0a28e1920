/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_TANE_PAGE_H
#define _ASM_TANE_PAGE_H

#include <linux/const.h>

#define PAGE_SHIFT	CONFIG_PAGE_SHIFT
#ifdef __ASSEMBLY__
#define PAGE_SIZE	(1 << PAGE_SHIFT)
#else
#define PAGE_SIZE	(1UL << PAGE_SHIFT)
#endif
#define PAGE_MASK	(~(PAGE_SIZE - 1))

#ifndef __ASSEMBLY__

#include <linux/pfn.h>
#include <linux/types.h>

typedef struct { unsigned long pte; } pte_t;
typedef struct { unsigned long pmd; } pmd_t;
typedef struct { unsigned long pud; } pud_t;
typedef struct { unsigned long pgd; } pgd_t;
typedef struct { unsigned long pgprot; } pgprot_t;
typedef struct page *pgtable_t;

#define pte_val(x)	((x).pte)
#define pmd_val(x)	((x).pmd)
#define pud_val(x)	((x).pud)
#define pgd_val(x)	((x).pgd)
#define pgprot_val(x)	((x).pgprot)

#define __pte(x)	((pte_t) { (x) })
#define __pmd(x)	((pmd_t) { (x) })
#define __pud(x)	((pud_t) { (x) })
#define __pgd(x)	((pgd_t) { (x) })
#define __pgprot(x)	((pgprot_t) { (x) })

/*
 * The image lies at physical address 0 and RAM is linear from there, so the
 * address of the image is the offset: no memory access, known after loading.
 */
extern char _text[];

#define PAGE_OFFSET	((unsigned long)_text)
#define __pa(x)		((unsigned long)(x) - PAGE_OFFSET)
#define __va(x)		((void *)((unsigned long)(x) + PAGE_OFFSET))

#define virt_to_pfn(x)	(__pa(x) >> PAGE_SHIFT)
#define pfn_to_virt(x)	__va((unsigned long)(x) << PAGE_SHIFT)
#define virt_to_page(x)	pfn_to_page(virt_to_pfn(x))
#define page_to_virt(x)	pfn_to_virt(page_to_pfn(x))
#define page_to_phys(x)	((phys_addr_t)page_to_pfn(x) << PAGE_SHIFT)
#define phys_to_page(x)	pfn_to_page((x) >> PAGE_SHIFT)
#define virt_addr_valid(x)	pfn_valid(virt_to_pfn(x))

void clear_page(void *page);
void copy_page(void *to, void *from);
#define clear_user_page(page, vaddr, pg)	clear_page(page)
#define copy_user_page(to, from, vaddr, pg)	copy_page(to, from)

#include <asm-generic/memory_model.h>
#include <asm-generic/getorder.h>

#endif /* __ASSEMBLY__ */

#define VM_DATA_DEFAULT_FLAGS	VM_DATA_FLAGS_TSK_EXEC

#endif
