// SPDX-License-Identifier: GPL-2.0-only
/*
 * CRC32C, with which ext4, xfs and btrfs guard their metadata and btrfs its data,
 * by the processor's own instruction (SSE4.2). It works in general registers, so
 * no vector state is at stake.
 *
 * The instruction takes three cycles, and a processor begins one in each: blocks
 * are done as three streams side by side. A CRC is linear, so that of one stream
 * after the other is the first's, carried over as many zero bytes as the second
 * has, plus the second's; carrying over is a table for each byte of the CRC.
 */
#include <linux/bitops.h>
#include <linux/crc32.h>
#include <linux/unaligned.h>
#include <asm/barrier.h>
#include <asm/cpufeature.h>

/* Three of them and two words are 4096 bytes. */
#define STREAM	1360

static u32 carried[4][256];
static bool carried_known;

static __always_inline u64 crc_word(u64 crc, u64 word)
{
	asm("crc32q %1, %0" : "+r" (crc) : "rm" (word));
	return crc;
}

/* Whoever needs it first, or several at once: it is always the same. */
static noinline void learn_to_carry(void)
{
	u32 bits[32];
	int i, k, n;

	for (i = 0; i < 32; i++) {
		u64 crc = BIT(i);

		for (n = 0; n < STREAM; n += 8)
			crc = crc_word(crc, 0);
		bits[i] = crc;
	}
	for (k = 0; k < 4; k++) {
		for (n = 1; n < 256; n++) {
			int low = __ffs(n);

			carried[k][n] = carried[k][n & (n - 1)] ^
					bits[8 * k + low];
		}
	}
	/* The table before the word that says it is there. */
	smp_store_release(&carried_known, true);
}

static u32 carry(u32 crc)
{
	return carried[0][crc & 255] ^ carried[1][crc >> 8 & 255] ^
	       carried[2][crc >> 16 & 255] ^ carried[3][crc >> 24];
}

static u32 three_streams(u32 crc, const unsigned char *p)
{
	u64 first = crc, second = 0, third = 0;
	int i;

	for (i = 0; i < STREAM; i += 8) {
		const u64 *word = (const u64 *)(p + i);

		first = crc_word(first, get_unaligned(word));
		second = crc_word(second, get_unaligned(word + STREAM / 8));
		third = crc_word(third, get_unaligned(word + STREAM / 4));
	}
	return carry(carry(first) ^ second) ^ third;
}

u32 __pure __crc32c_le(u32 crc, const unsigned char *p, size_t len)
{
	u64 wide;

	if (!boot_cpu_has(X86_FEATURE_XMM4_2))
		return __crc32c_le_base(crc, p, len);

	/* If it is known, the table was written before. */
	if (len >= 3 * STREAM && !smp_load_acquire(&carried_known))
		learn_to_carry();
	for (; len >= 3 * STREAM; len -= 3 * STREAM, p += 3 * STREAM)
		crc = three_streams(crc, p);

	wide = crc;
	for (; len >= 8; len -= 8, p += 8)
		wide = crc_word(wide, get_unaligned((const u64 *)p));
	crc = wide;
	for (; len; len--, p++)
		asm("crc32b %1, %0" : "+r" (crc) : "rm" (*p));
	return crc;
}
