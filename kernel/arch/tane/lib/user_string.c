// SPDX-License-Identifier: GPL-2.0-only
/*
 * Linux's own code for strings of users, which takes user memory to end at
 * TASK_SIZE_MAX and asks for all that could be the string's before it looks. Here
 * other memory begins earlier: behind a window, and where the kernel is. A string
 * that ends right before it is a string like others.
 */
#include <linux/uaccess.h>

static unsigned long tane_user_end(const void __user *from)
{
	unsigned long window = tane_vcpu_get(window);

	if (window)
		return window + TANE_WINDOW_SIZE;
	return (unsigned long)from < PAGE_OFFSET ? PAGE_OFFSET : TASK_SIZE_MAX;
}

#undef TASK_SIZE_MAX
#define TASK_SIZE_MAX	tane_user_end(src)
#include "../../../lib/strncpy_from_user.c"

#undef TASK_SIZE_MAX
#define TASK_SIZE_MAX	tane_user_end(str)
#include "../../../lib/strnlen_user.c"
