/* SPDX-License-Identifier: GPL-2.0-only */
/* mm/tlb.c: the host's mappings are the TLB. */
#ifndef _ASM_TANE_TLBFLUSH_H
#define _ASM_TANE_TLBFLUSH_H

struct mm_struct;
struct vm_area_struct;

void flush_tlb_all(void);
void flush_tlb_mm(struct mm_struct *mm);
void flush_tlb_range(struct vm_area_struct *vma, unsigned long start,
		     unsigned long end);
void flush_tlb_page(struct vm_area_struct *vma, unsigned long address);
void flush_tlb_kernel_range(unsigned long start, unsigned long end);

void tane_map_vmalloc(unsigned long start, unsigned long end);
void tane_unmap_vmalloc(unsigned long start, unsigned long end);
bool tane_fault_vmalloc(unsigned long address);

#endif
