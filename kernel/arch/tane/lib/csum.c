// SPDX-License-Identifier: GPL-2.0-only
/* The Internet checksum (RFC 1071), 32 bytes a round with the carry kept. */
#include <linux/unaligned.h>
#include <asm/checksum.h>

static unsigned long add(unsigned long sum, unsigned long more)
{
	asm("addq %1, %0; adcq $0, %0" : "+r" (sum) : "rm" (more));
	return sum;
}

/* Sums of words at odd addresses are swapped, so an address need not be even. */
unsigned int do_csum(const unsigned char *buff, int len)
{
	unsigned long sum = 0;

	for (; len >= 32; len -= 32, buff += 32)
		asm("addq 0*8(%1), %0; adcq 1*8(%1), %0; adcq 2*8(%1), %0;"
		    "adcq 3*8(%1), %0; adcq $0, %0"
		    : "+r" (sum) : "r" (buff), "m" (*(const char (*)[32])buff));
	for (; len >= 8; len -= 8, buff += 8)
		sum = add(sum, get_unaligned((const unsigned long *)buff));
	if (len > 0) {
		unsigned long rest = 0;

		for (int i = 0; i < len; i++)
			rest |= (unsigned long)buff[i] << (8 * i);
		sum = add(sum, rest);
	}
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}
