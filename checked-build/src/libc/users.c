// SPDX-License-Identifier: GPL-2.0-only
/* Users and groups are those of /etc/passwd and /etc/group: nobody else is asked by a socket. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

FILE *__nscd_query(int32_t request, const char *key, int32_t *answer, size_t bytes, int *swap)
{
	errno = 0;
	return NULL;
}
