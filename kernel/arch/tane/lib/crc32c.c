// SPDX-License-Identifier: GPL-2.0-only
/*
 * CRC32C, with which ext4, xfs and btrfs guard their metadata, by the
 * processor's own instruction (SSE4.2). It works in general registers, so no
 * vector state is at stake. One dependent chain does 8 bytes in 3 cycles, which
 * is enough beside the reads that it checks.
 */
#include <linux/crc32.h>
#include <linux/unaligned.h>
#include <asm/cpufeature.h>

u32 __pure __crc32c_le(u32 crc, const unsigned char *p, size_t len)
{
	u64 wide = crc;

	if (!boot_cpu_has(X86_FEATURE_XMM4_2))
		return __crc32c_le_base(crc, p, len);

	for (; len >= 8; len -= 8, p += 8)
		asm("crc32q %1, %0"
		    : "+r" (wide) : "rm" (get_unaligned((const u64 *)p)));
	crc = wide;
	for (; len; len--, p++)
		asm("crc32b %1, %0" : "+r" (crc) : "rm" (*p));
	return crc;
}
