// SPDX-License-Identifier: GPL-2.0-only
/* What the processor can, and sections that use vector registers: asm/fpu/api.h. */
#include <linux/bug.h>
#include <linux/cache.h>
#include <linux/export.h>
#include <linux/init.h>
#include <linux/irqflags.h>
#include <linux/kstrtox.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/printk.h>
#include <asm/cpu_device_id.h>
#include <asm/fpu/api.h>
#include <asm/machine.h>

u32 tane_cpu_features[NCAPINTS] __ro_after_init;
EXPORT_SYMBOL(tane_cpu_features);

/*
 * From which length on copies and fills (lib/) use string instructions. Where these
 * are fast for short lengths, too (FSRM), 16 to 128 bytes take 2.8 ns and by words up
 * to 5.5, 160 to 512 bytes 7.8 to 11.4 and by words 4.5 to 10.6, 4 KiB 20 and by words
 * 86. Where they are fast for long lengths only (ERMS) the way there costs some 30
 * cycles. Without either they go byte by byte, and words are never slower.
 */
#define STRING_FROM_FSRM	16
#define STRING_FROM_ERMS	128

unsigned long tane_string_from __ro_after_init = STRING_FROM_ERMS;

/* As another processor would: what tests of the ways to copy ask for. */
static bool tane_string_from_given __initdata;

static int __init tane_set_string_from(char *arg)
{
	tane_string_from_given = !kstrtoul(arg, 0, &tane_string_from);
	return tane_string_from_given ? 0 : -EINVAL;
}
early_param("tane.string_from", tane_set_string_from);

/* Components of XSAVE that the host has switched on. */
static u64 tane_xfeatures __ro_after_init;

/* Vendor, family and model as VFM_MAKE() has them. */
static u32 tane_cpu_vfm __ro_after_init;

/* Legacy area, header, and the components above in standard format. */
#define XSAVE_SIZE	2752

struct tane_fpu {
	u8 area[XSAVE_SIZE] __aligned(64);
	unsigned long flags;
	bool active;
};

static DEFINE_PER_CPU(struct tane_fpu, tane_fpu);

struct cpuid {
	u32 eax, ebx, ecx, edx;
};

static struct cpuid __init tane_cpuid(u32 leaf)
{
	struct cpuid id = { .eax = leaf };

	asm("cpuid" : "+a" (id.eax), "=b" (id.ebx), "+c" (id.ecx), "=d" (id.edx));
	return id;
}

static void __init tane_clear_features(const u16 *features, size_t count)
{
	for (size_t i = 0; i < count; i++)
		tane_cpu_features[features[i] / 32] &= ~BIT(features[i] % 32);
}

/* Each cpuid leaves a virtual machine for some microseconds: as few as will do. */
void __init tane_detect_cpu(void)
{
	static const u16 avx[] __initconst = {
		X86_FEATURE_AVX, X86_FEATURE_AVX2, X86_FEATURE_FMA,
		X86_FEATURE_VAES, X86_FEATURE_VPCLMULQDQ,
	};
	static const u16 avx512[] __initconst = {
		X86_FEATURE_AVX512F, X86_FEATURE_AVX512DQ,
		X86_FEATURE_AVX512BW, X86_FEATURE_AVX512VL,
	};
	struct cpuid vendor = tane_cpuid(0), id = tane_cpuid(1);
	u32 low, high, signature = id.eax;

	tane_cpu_features[X86_FEATURE_FPU / 32] = id.edx;
	tane_cpu_features[X86_FEATURE_XMM3 / 32] = id.ecx;
	if (vendor.eax >= 7) {
		id = tane_cpuid(7);
		tane_cpu_features[X86_FEATURE_AVX2 / 32] = id.ebx;
		tane_cpu_features[X86_FEATURE_VAES / 32] = id.ecx;
		tane_cpu_features[X86_FEATURE_FSRM / 32] = id.edx;
	}
	if (tane_string_from_given)
		pr_info("tane: string instructions from %lu bytes on\n",
			tane_string_from);
	else if (boot_cpu_has(X86_FEATURE_FSRM))
		tane_string_from = STRING_FROM_FSRM;
	else if (!boot_cpu_has(X86_FEATURE_ERMS))
		tane_string_from = ULONG_MAX;
	if (vendor.ebx == 0x756e6547)	/* "Genu", ineI, ntel */
		tane_cpu_vfm = VFM_MAKE(X86_VENDOR_INTEL, signature >> 8 & 15,
					(signature >> 4 & 15) |
					(signature >> 12 & 0xf0));

	if (boot_cpu_has(X86_FEATURE_OSXSAVE)) {
		asm("xgetbv" : "=a" (low), "=d" (high) : "c" (0));
		tane_xfeatures = low | (u64)high << 32;
	}
	if (!cpu_has_xfeatures(XFEATURE_MASK_SSE | XFEATURE_MASK_YMM, NULL))
		tane_clear_features(avx, ARRAY_SIZE(avx));
	if (!cpu_has_xfeatures(XFEATURE_MASK_AVX512, NULL))
		tane_clear_features(avx512, ARRAY_SIZE(avx512));
}

int cpu_has_xfeatures(u64 features, const char **name)
{
	if (name)
		*name = NULL;
	return (tane_xfeatures & features) == features;
}
EXPORT_SYMBOL_GPL(cpu_has_xfeatures);

const struct x86_cpu_id *x86_match_cpu(const struct x86_cpu_id *match)
{
	for (; match->flags & X86_CPU_ID_FLAG_ENTRY_VALID; match++) {
		if (match->feature != X86_FEATURE_ANY &&
		    !boot_cpu_has(match->feature))
			continue;
		if (match->model == X86_MODEL_ANY ||
		    VFM_MAKE(match->vendor, match->family, match->model) ==
		    tane_cpu_vfm)
			return match;
	}
	return NULL;
}
EXPORT_SYMBOL(x86_match_cpu);

void kernel_fpu_begin(void)
{
	struct tane_fpu *fpu;
	unsigned long flags;

	preempt_disable();
	local_irq_save(flags);
	tane_spare_vectors();
	fpu = this_cpu_ptr(&tane_fpu);
	WARN_ON_ONCE(fpu->active);
	fpu->flags = flags;
	fpu->active = true;
}
EXPORT_SYMBOL_GPL(kernel_fpu_begin);

void kernel_fpu_end(void)
{
	struct tane_fpu *fpu = this_cpu_ptr(&tane_fpu);

	/* With their upper halves in use the host's SSE code would be slow. */
	if (boot_cpu_has(X86_FEATURE_AVX))
		asm volatile("vzeroupper");
	fpu->active = false;
	local_irq_restore(fpu->flags);
	preempt_enable();
}
EXPORT_SYMBOL_GPL(kernel_fpu_end);

#define XSAVE_MASK	(XFEATURE_MASK_SSE | XFEATURE_MASK_YMM | \
			 XFEATURE_MASK_AVX512)

static void tane_xsave(u8 *area)
{
	if (boot_cpu_has(X86_FEATURE_OSXSAVE))
		asm volatile("xsave64 (%0)" : : "r" (area),
			     "a" (XSAVE_MASK), "d" (0) : "memory");
	else
		asm volatile("fxsave64 (%0)" : : "r" (area) : "memory");
}

static void tane_xrstor(const u8 *area)
{
	if (boot_cpu_has(X86_FEATURE_OSXSAVE))
		asm volatile("xrstor64 (%0)" : : "r" (area),
			     "a" (XSAVE_MASK), "d" (0) : "memory");
	else
		asm volatile("fxrstor64 (%0)" : : "r" (area) : "memory");
}

bool tane_fpu_save(void)
{
	struct tane_fpu *fpu = this_cpu_ptr(&tane_fpu);

	if (likely(!fpu->active))
		return false;
	tane_xsave(fpu->area);
	return true;
}

void tane_fpu_restore(void)
{
	tane_xrstor(this_cpu_ptr(&tane_fpu)->area);
}

void tane_save_vectors(struct tane_caller *caller)
{
	if (caller->saved)
		return;
	tane_xsave(caller->xsave);
	caller->saved = 1;
}
EXPORT_SYMBOL(tane_save_vectors);

void tane_restore_vectors(struct tane_caller *caller)
{
	tane_xrstor(caller->xsave);
	caller->saved = 0;
}
