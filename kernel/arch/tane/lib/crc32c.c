// SPDX-License-Identifier: GPL-2.0-only
/*
 * CRC32C, with which ext4, xfs and btrfs guard their metadata, by the
 * processor's own instruction (SSE4.2). It works in general registers, so no
 * vector state is at stake. One dependent chain does 8 bytes in 3 cycles, which
 * is enough beside the reads that it checks.
 */
#include <linux/bits.h>
#include <linux/cache.h>
#include <linux/crc32.h>
#include <linux/init.h>
#include <linux/unaligned.h>

#define CPUID_1_ECX_SSE42	BIT(20)

static bool tane_has_crc32 __ro_after_init;

static int __init tane_init_crc32(void)
{
	u32 eax = 1, ebx, ecx = 0, edx;

	asm("cpuid" : "+a" (eax), "=b" (ebx), "+c" (ecx), "=d" (edx));
	tane_has_crc32 = ecx & CPUID_1_ECX_SSE42;
	return 0;
}
early_initcall(tane_init_crc32);

u32 __pure __crc32c_le(u32 crc, const unsigned char *p, size_t len)
{
	u64 wide = crc;

	if (!tane_has_crc32)
		return __crc32c_le_base(crc, p, len);

	for (; len >= 8; len -= 8, p += 8)
		asm("crc32q %1, %0"
		    : "+r" (wide) : "rm" (get_unaligned((const u64 *)p)));
	crc = wide;
	for (; len; len--, p++)
		asm("crc32b %1, %0" : "+r" (crc) : "rm" (*p));
	return crc;
}
