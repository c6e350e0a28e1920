/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_TANE_STRING_H
#define _ASM_TANE_STRING_H

#define __HAVE_ARCH_MEMCPY
void *memcpy(void *to, const void *from, size_t len);
void *__memcpy(void *to, const void *from, size_t len);

#define __HAVE_ARCH_MEMMOVE
void *memmove(void *to, const void *from, size_t len);
void *__memmove(void *to, const void *from, size_t len);

#define __HAVE_ARCH_MEMSET
void *memset(void *to, int byte, size_t len);
void *__memset(void *to, int byte, size_t len);

#endif
