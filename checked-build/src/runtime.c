// SPDX-License-Identifier: GPL-2.0-only
/* What GCC calls on its own. Eight bytes a turn, since string instructions are refused. */

typedef __SIZE_TYPE__ size;
typedef unsigned long __attribute__((may_alias, aligned(1))) word;

void *memcpy(void *restrict to, const void *restrict from, size n)
{
	char *t = to;
	const char *f = from;

	for (; n >= 8; n -= 8, t += 8, f += 8)
		*(word *)t = *(const word *)f;
	while (n--)
		*t++ = *f++;
	return to;
}

void *memmove(void *to, const void *from, size n)
{
	char *t = to;
	const char *f = from;

	if (t <= f || t >= f + n)
		return memcpy(to, from, n);
	for (; n >= 8; n -= 8)
		*(word *)(t + n - 8) = *(const word *)(f + n - 8);
	while (n--)
		t[n] = f[n];
	return to;
}

void *memset(void *to, int c, size n)
{
	word all = (unsigned char)c * 0x0101010101010101ul;
	char *t = to;

	for (; n >= 8; n -= 8, t += 8)
		*(word *)t = all;
	while (n--)
		*t++ = c;
	return to;
}

int memcmp(const void *a, const void *b, size n)
{
	const unsigned char *x = a, *y = b;

	for (; n && *x == *y; n--)
		x++, y++;
	return n ? *x - *y : 0;
}
