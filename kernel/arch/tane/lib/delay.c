// SPDX-License-Identifier: GPL-2.0-only
#include <linux/delay.h>
#include <linux/export.h>
#include <asm/machine.h>
#include <asm/processor.h>

void __ndelay(unsigned long ns)
{
	u64 end = tane_monotonic() + ns;

	while (tane_monotonic() < end)
		cpu_relax();
}
EXPORT_SYMBOL(__ndelay);

void __udelay(unsigned long us)
{
	__ndelay(us * 1000);
}
EXPORT_SYMBOL(__udelay);

void __delay(unsigned long ns)
{
	__ndelay(ns);
}
EXPORT_SYMBOL(__delay);
