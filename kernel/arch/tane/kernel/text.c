// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program's code, for the host, which has its system calls jump to the gate:
 * whose file it is, what stands there, and what shall. The pages that are written
 * become the program's own, as under a debugger: files stay as they are.
 */
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <asm/machine.h>
#include <asm/program.h>

/* The part of a file that an address is in; TANE_NR_TEXT has the host's copy. */
struct tane_text {
	u64 start;
	u64 end;
	u64 offset;	/* in the file, bytes */
	u64 device;
	u64 inode;
	u64 changed;	/* ctime, ns */
};

static long tane_text(unsigned long address, struct tane_text *text)
{
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	long ret = -ENOENT;

	mmap_read_lock(mm);
	vma = vma_lookup(mm, address);
	if (vma && vma->vm_file && (vma->vm_flags & VM_EXEC) &&
	    !(vma->vm_flags & (VM_WRITE | VM_SHARED))) {
		struct inode *inode = file_inode(vma->vm_file);
		struct timespec64 changed = inode_get_ctime(inode);

		*text = (struct tane_text){
			.start = vma->vm_start,
			.end = vma->vm_end,
			.offset = (u64)vma->vm_pgoff << PAGE_SHIFT,
			.device = inode->i_sb->s_dev,
			.inode = inode->i_ino,
			.changed = timespec64_to_ns(&changed),
		};
		ret = 0;
	}
	mmap_read_unlock(mm);
	return ret;
}

/* Other threads may be running these bytes: they see all of them or none. */
static long tane_poke_word(unsigned long address, const void *bytes, size_t len)
{
	unsigned int shift = address % sizeof(u64);
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	struct page *page;
	u64 *word, value;

	mmap_read_lock(mm);
	page = get_user_page_vma_remote(mm, address, FOLL_FORCE | FOLL_WRITE,
					&vma);
	if (IS_ERR(page)) {
		mmap_read_unlock(mm);
		return PTR_ERR(page);
	}
	word = page_address(page) + offset_in_page(address - shift);
	value = READ_ONCE(*word);
	memcpy((u8 *)&value + shift, bytes, len);
	WRITE_ONCE(*word, value);
	set_page_dirty_lock(page);
	put_page(page);
	mmap_read_unlock(mm);
	return len;
}

/* What TANE_NR_TEXT and its kin ask for; the addresses but the first are the host's. */
long tane_text_request(u32 nr, unsigned long address, void *bytes, size_t len)
{
	switch (nr) {
	case TANE_NR_TEXT:
		return tane_text(address, bytes);
	case TANE_NR_PEEK:
		return access_process_vm(current, address, bytes, len,
					 FOLL_FORCE);
	default:
		if (address % sizeof(u64) + len <= sizeof(u64))
			return tane_poke_word(address, bytes, len);
		return access_process_vm(current, address, bytes, len,
					 FOLL_FORCE | FOLL_WRITE);
	}
}
