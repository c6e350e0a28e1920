/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * User memory is the memory of the host process, at its own addresses. Any
 * pointer may be bad: each access has an exception table entry, and the host's
 * SIGSEGV finds it (mm/fault.c).
 */
#ifndef _ASM_TANE_UACCESS_H
#define _ASM_TANE_UACCESS_H

#include <linux/compiler.h>
#include <linux/string.h>
#include <asm/asm.h>
#include <asm/extable.h>
#include <asm/processor.h>

/* Where the kernel's own memory ends: RAM, and the vmalloc window above it. */
extern unsigned long tane_window_end;

/* That memory is no user's, although it is in the same process. */
static inline int __access_ok(const void __user *ptr, unsigned long size)
{
	unsigned long address = (unsigned long)ptr;

	if (unlikely(size > TASK_SIZE_MAX || address > TASK_SIZE_MAX - size))
		return false;
	if (unlikely(tane_vcpu_get(window)))
		return address >= tane_vcpu_get(window) &&
		       address + size <= tane_vcpu_get(window) +
					 TANE_WINDOW_SIZE;
	return address >= tane_window_end ||
	       address + size <= PAGE_OFFSET;
}

#define __access_ok __access_ok

/* lib/usercopy.S: both return how many bytes are left, 0 for success. */
unsigned long tane_copy(void *to, const void *from, unsigned long len);
unsigned long tane_clear(void *to, unsigned long len);

static inline unsigned long
raw_copy_from_user(void *to, const void __user *from, unsigned long len)
{
	return tane_copy(to, (__force const void *)from, len);
}

static inline unsigned long
raw_copy_to_user(void __user *to, const void *from, unsigned long len)
{
	return tane_copy((__force void *)to, from, len);
}

#define INLINE_COPY_FROM_USER
#define INLINE_COPY_TO_USER

static inline unsigned long __clear_user(void __user *to, unsigned long len)
{
	return tane_clear((__force void *)to, len);
}

static inline unsigned long clear_user(void __user *to, unsigned long len)
{
	might_fault();
	return __access_ok(to, len) ? __clear_user(to, len) : len;
}

void tane_bad_user_access_size(void)
	__compiletime_error("user access of this size");

/* The access at 1b may fault; then asm goto's label, operand 2, is next. */
#define TANE_FIXUP							\
	".pushsection __ex_table, \"a\"\n"				\
	".balign 4\n"							\
	".long 1b - ., %l2 - ., " __stringify(EX_TYPE_UACCESS) "\n"	\
	".popsection\n"

#define __tane_load(x, ptr, op, type, label)				\
do {									\
	type __value;							\
	asm_goto_output("1: " op "\n"					\
			TANE_FIXUP					\
			: "=r" (__value)				\
			: "m" (*(__force type *)(ptr))			\
			: : label);					\
	(x) = (__force __typeof__(x))__value;				\
} while (0)

#define __tane_store(x, ptr, op, type, label)				\
	asm goto("1: " op "\n"						\
		 TANE_FIXUP						\
		 : : "r" ((__force type)(x)),				\
		     "m" (*(__force type *)(ptr))			\
		 : "memory" : label)

#define __tane_load_sized(x, ptr, size, label)				\
do {									\
	switch (size) {							\
	case 1:								\
		__tane_load(x, ptr, "movb %1, %b0", u8, label);		\
		break;							\
	case 2:								\
		__tane_load(x, ptr, "movw %1, %w0", u16, label);	\
		break;							\
	case 4:								\
		__tane_load(x, ptr, "movl %1, %k0", u32, label);	\
		break;							\
	case 8:								\
		__tane_load(x, ptr, "movq %1, %q0", u64, label);	\
		break;							\
	default:							\
		tane_bad_user_access_size();				\
	}								\
} while (0)

#define __tane_store_sized(x, ptr, size, label)				\
do {									\
	switch (size) {							\
	case 1:								\
		__tane_store(x, ptr, "movb %b0, %1", u8, label);	\
		break;							\
	case 2:								\
		__tane_store(x, ptr, "movw %w0, %1", u16, label);	\
		break;							\
	case 4:								\
		__tane_store(x, ptr, "movl %k0, %1", u32, label);	\
		break;							\
	case 8:								\
		__tane_store(x, ptr, "movq %q0, %1", u64, label);	\
		break;							\
	default:							\
		tane_bad_user_access_size();				\
	}								\
} while (0)

#define __inttype(x) __typeof__(					\
	__builtin_choose_expr(sizeof(x) > sizeof(u32), (u64)0,		\
	__builtin_choose_expr(sizeof(x) > sizeof(u16), (u32)0,		\
	__builtin_choose_expr(sizeof(x) > sizeof(u8), (u16)0, (u8)0))))

#define unsafe_get_user(x, ptr, label)					\
do {									\
	__inttype(*(ptr)) __raw;					\
	__tane_load_sized(__raw, ptr, sizeof(*(ptr)), label);	\
	(x) = (__force __typeof__(*(ptr)))__raw;			\
} while (0)

#define unsafe_put_user(x, ptr, label)					\
do {									\
	__typeof__(*(ptr)) __in = (x);					\
	__tane_store_sized((__inttype(*(ptr)))__in, ptr,		\
			   sizeof(*(ptr)), label);			\
} while (0)

#define __get_user(x, ptr)						\
({									\
	__label__ __failed, __done;					\
	int __error = 0;						\
	__typeof__(*(ptr)) __user *__from = (ptr);			\
	unsafe_get_user(x, __from, __failed);				\
	goto __done;							\
__failed:								\
	(x) = (__force __typeof__(*(ptr)))0;				\
	__error = -EFAULT;						\
__done:									\
	__error;							\
})

#define __put_user(x, ptr)						\
({									\
	__label__ __failed, __done;					\
	int __error = 0;						\
	__typeof__(*(ptr)) __user *__to = (ptr);			\
	unsafe_put_user(x, __to, __failed);				\
	goto __done;							\
__failed:								\
	__error = -EFAULT;						\
__done:									\
	__error;							\
})

#define get_user(x, ptr)						\
({									\
	const void __user *__gu = (ptr);				\
	might_fault();							\
	__access_ok(__gu, sizeof(*(ptr))) ?				\
		__get_user(x, (typeof(ptr))__gu) :			\
		((x) = (__force __typeof__(*(ptr)))0, -EFAULT);		\
})

#define put_user(x, ptr)						\
({									\
	void __user *__pu = (ptr);					\
	might_fault();							\
	__access_ok(__pu, sizeof(*(ptr))) ?				\
		__put_user(x, (typeof(ptr))__pu) :			\
		-EFAULT;						\
})

#define user_access_begin(ptr, len)	__access_ok(ptr, len)
#define user_access_end()		do { } while (0)
#define user_access_save()		0UL
#define user_access_restore(flags)	do { } while (0)

#define unsafe_copy_from_user(to, from, len, label)			\
do {									\
	if (raw_copy_from_user(to, from, len))				\
		goto label;						\
} while (0)

#define unsafe_copy_to_user(to, from, len, label)			\
do {									\
	if (raw_copy_to_user(to, from, len))				\
		goto label;						\
} while (0)

#define __get_kernel_nofault(dst, src, type, label)			\
	unsafe_get_user(*(type *)(dst), (__force type __user *)src, label)
#define __put_kernel_nofault(dst, src, type, label)			\
	unsafe_put_user(*(type *)(src), (__force type __user *)dst, label)

__must_check long strncpy_from_user(char *to, const char __user *from, long len);
__must_check long strnlen_user(const char __user *from, long len);

#include <asm-generic/access_ok.h>

#endif
