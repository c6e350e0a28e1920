// SPDX-License-Identifier: GPL-2.0-only
/*
 * What GCC calls on its own. String instructions are refused, so it is vectors of 16 bytes;
 * what is no whole number of them ends, or begins, with one that overlaps its neighbour.
 */

typedef __SIZE_TYPE__ size;
typedef unsigned long __attribute__((may_alias, aligned(1))) word;
typedef unsigned int __attribute__((may_alias, aligned(1))) half;
typedef unsigned short __attribute__((may_alias, aligned(1))) quarter;
typedef unsigned char __attribute__((vector_size(16), may_alias, aligned(1))) vector;

/* The first and the last bytes are read before any is written: they may overlap. */
#define ENDS(type, t, f, n)						\
	do {								\
		type first = *(const type *)(f);			\
		type last = *(const type *)((f) + (n) - sizeof(type));	\
									\
		*(type *)(t) = first;					\
		*(type *)((t) + (n) - sizeof(type)) = last;		\
	} while (0)

/* Up to two vectors. */
static inline void few(char *t, const char *f, size n)
{
	if (n >= sizeof(vector))
		ENDS(vector, t, f, n);
	else if (n >= sizeof(word))
		ENDS(word, t, f, n);
	else if (n >= sizeof(half))
		ENDS(half, t, f, n);
	else if (n >= sizeof(quarter))
		ENDS(quarter, t, f, n);
	else if (n)
		*t = *f;
}

/* From the first byte on: right if what is written lies apart, or lower. */
static inline void upwards(char *t, const char *f, size n)
{
	vector last = *(const vector *)(f + n - sizeof(vector));
	char *end = t + n - sizeof(vector);

	for (; end - t > (long)sizeof(vector); t += 2 * sizeof(vector), f += 2 * sizeof(vector)) {
		vector a = *(const vector *)f, b = *(const vector *)(f + sizeof(vector));

		*(vector *)t = a;
		*(vector *)(t + sizeof(vector)) = b;
	}
	if (t < end)
		*(vector *)t = *(const vector *)f;
	*(vector *)end = last;
}

static inline void downwards(char *t, const char *f, size n)
{
	vector first = *(const vector *)f;

	for (; n > sizeof(vector); n -= sizeof(vector))
		*(vector *)(t + n - sizeof(vector)) = *(const vector *)(f + n - sizeof(vector));
	*(vector *)t = first;
}

void *memcpy(void *restrict to, const void *restrict from, size n)
{
	if (n <= 2 * sizeof(vector))
		few(to, from, n);
	else
		upwards(to, from, n);
	return to;
}

void *memmove(void *to, const void *from, size n)
{
	if (n <= 2 * sizeof(vector))
		few(to, from, n);
	else if ((size)((char *)to - (const char *)from) >= n)
		upwards(to, from, n);
	else
		downwards(to, from, n);
	return to;
}

void *memset(void *to, int c, size n)
{
	word all = (unsigned char)c * 0x0101010101010101ul;
	vector wide = (vector)(__attribute__((vector_size(16))) unsigned long){ all, all };
	char *t = to, *end = t + n;

	if (n >= sizeof(vector)) {
		for (; end - t > (long)sizeof(vector); t += sizeof(vector))
			*(vector *)t = wide;
		*(vector *)(end - sizeof(vector)) = wide;
	} else if (n >= sizeof(word)) {
		*(word *)t = all;
		*(word *)(end - sizeof(word)) = all;
	} else {
		while (t < end)
			*t++ = c;
	}
	return to;
}

/* The first byte that differs is the lowest one. */
static inline int compare(word x, word y)
{
	unsigned at = x == y ? 0 : __builtin_ctzl(x ^ y) & ~7u;

	return (int)(x >> at & 0xff) - (int)(y >> at & 0xff);
}

int memcmp(const void *a, const void *b, size n)
{
	const unsigned char *x = a, *y = b, *end = x + n;

	if (n >= sizeof(word)) {
		for (; end - x > (long)sizeof(word); x += sizeof(word), y += sizeof(word))
			if (*(const word *)x != *(const word *)y)
				return compare(*(const word *)x, *(const word *)y);
		y += end - x;
		return compare(((const word *)end)[-1], ((const word *)y)[-1]);
	}
	for (; x < end; x++, y++)
		if (*x != *y)
			return *x - *y;
	return 0;
}

/* What C++ calls where a class has no function of its own. */
void __cxa_pure_virtual(void)
{
	__builtin_trap();
}
