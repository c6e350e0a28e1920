// SPDX-License-Identifier: GPL-2.0-only
/*
 * The vDSO of programs: two pages with the time, and behind them code that reads it. What
 * counts between the kernel's updates is the host's clock, whose own vDSO lies in the
 * same process (tane_boot.clock_gettime). Programs are shown no frames of the image, so
 * that both get pages of their own.
 */
#include <linux/binfmts.h>
#include <linux/elf.h>
#include <linux/gfp.h>
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/time_namespace.h>
#include <asm/machine.h>
#include <asm/vdso.h>
#include <vdso/datapage.h>
#include <vdso/vsyscall.h>

/* In a namespace of time the first has its offsets, and the second is the first. */
enum {
	TANE_VVAR_DATA,
	TANE_VVAR_TIMENS,
};

static union vdso_data_store tane_vdso_early;
struct vdso_data *tane_vdso_data = tane_vdso_early.data;

static struct page **tane_vdso_pages __ro_after_init;
static unsigned int tane_vdso_nr __ro_after_init;

static vm_fault_t tane_vvar_fault(const struct vm_special_mapping *mapping,
				  struct vm_area_struct *vma,
				  struct vm_fault *vmf)
{
	struct page *data = virt_to_page(tane_vdso_data);
	struct page *timens = find_timens_vvar_page(vma);

	switch (vmf->pgoff) {
	case TANE_VVAR_DATA:
		vmf->page = timens ?: data;
		break;
	case TANE_VVAR_TIMENS:
		if (!timens)
			return VM_FAULT_SIGBUS;
		vmf->page = data;
		break;
	default:
		return VM_FAULT_SIGBUS;
	}
	get_page(vmf->page);
	return 0;
}

static vm_fault_t tane_vdso_fault(const struct vm_special_mapping *mapping,
				  struct vm_area_struct *vma,
				  struct vm_fault *vmf)
{
	if (vmf->pgoff >= tane_vdso_nr)
		return VM_FAULT_SIGBUS;
	vmf->page = tane_vdso_pages[vmf->pgoff];
	get_page(vmf->page);
	return 0;
}

static const struct vm_special_mapping tane_vvar_mapping = {
	.name	= "[vvar]",
	.fault	= tane_vvar_fault,
};

static const struct vm_special_mapping tane_vdso_mapping = {
	.name	= "[vdso]",
	.fault	= tane_vdso_fault,
};

#ifdef CONFIG_TIME_NS
struct vdso_data *arch_get_vdso_data(void *vvar_page)
{
	return vvar_page;
}

/* What its program sees of the pages is that of the namespace before. */
int vdso_join_timens(struct task_struct *task, struct time_namespace *ns)
{
	struct mm_struct *mm = task->mm;
	struct vm_area_struct *vma;
	struct vma_iterator vmi;

	vma_iter_init(&vmi, mm, 0);
	mmap_read_lock(mm);
	for_each_vma(vmi, vma) {
		if (vma_is_special_mapping(vma, &tane_vvar_mapping))
			zap_vma_pages(vma);
	}
	mmap_read_unlock(mm);
	return 0;
}
#endif

static int tane_map_vdso(struct mm_struct *mm)
{
	unsigned long vvar_len = TANE_VVAR_PAGES * PAGE_SIZE;
	unsigned long len = tane_vdso_nr * PAGE_SIZE;
	struct vm_area_struct *vma;
	unsigned long at;

	at = get_unmapped_area(NULL, 0, vvar_len + len, 0, 0);
	if (IS_ERR_VALUE(at))
		return at;
	vma = _install_special_mapping(mm, at, vvar_len,
				       VM_READ | VM_MAYREAD | VM_IO |
				       VM_DONTDUMP, &tane_vvar_mapping);
	if (IS_ERR(vma))
		return PTR_ERR(vma);
	at += vvar_len;
	/* Writable for debuggers, whose breakpoints are in a copy. */
	vma = _install_special_mapping(mm, at, len,
				       VM_READ | VM_EXEC | VM_MAYREAD |
				       VM_MAYWRITE | VM_MAYEXEC,
				       &tane_vdso_mapping);
	if (IS_ERR(vma))
		return PTR_ERR(vma);
	mm->context.vdso = at;
	return 0;
}

/* Part of execve(2). */
int arch_setup_additional_pages(struct linux_binprm *bprm, int uses_interp)
{
	struct mm_struct *mm = current->mm;
	int error;

	mm->context.vdso = 0;
	if (!tane_vdso_nr)
		return 0;
	if (mmap_write_lock_killable(mm))
		return -EINTR;
	error = tane_map_vdso(mm);
	mmap_write_unlock(mm);
	return error;
}

/* The time goes on in a page of its own. */
static void __init tane_move_data(struct vdso_data *to)
{
	unsigned long flags = vdso_update_begin();
	int base;

	memcpy(to, tane_vdso_data, sizeof(tane_vdso_early));
	for (base = 0; base < CS_BASES; base++) {
		to[base].arch_data.clock_gettime = tane_boot->clock_gettime;
		to[base].arch_data.gate = tane_boot->program_gate;
	}
	tane_vdso_data = to;
	vdso_update_end(flags);
}

static int __init tane_init_vdso(void)
{
	size_t len = tane_vdso_end - tane_vdso_start, at;
	unsigned int nr = DIV_ROUND_UP(len, PAGE_SIZE), i;
	void *data;

	if (!tane_boot->program_end)
		return 0;
	data = (void *)get_zeroed_page(GFP_KERNEL);
	tane_vdso_pages = kcalloc(nr, sizeof(*tane_vdso_pages), GFP_KERNEL);
	if (!data || !tane_vdso_pages)
		panic("no memory for the vDSO");
	for (i = 0, at = 0; i < nr; i++, at += PAGE_SIZE) {
		tane_vdso_pages[i] = alloc_page(GFP_KERNEL | __GFP_ZERO);
		if (!tane_vdso_pages[i])
			panic("no memory for the vDSO");
		memcpy(page_address(tane_vdso_pages[i]), tane_vdso_start + at,
		       min(len - at, PAGE_SIZE));
	}
	tane_move_data(data);
	tane_vdso_nr = nr;
	return 0;
}
arch_initcall(tane_init_vdso);
