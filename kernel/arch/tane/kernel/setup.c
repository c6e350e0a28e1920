// SPDX-License-Identifier: GPL-2.0-only
#include <linux/cache.h>
#include <linux/cpu.h>
#include <linux/init.h>
#include <linux/memblock.h>
#include <linux/random.h>
#include <linux/seq_file.h>
#include <linux/start_kernel.h>
#include <linux/string.h>
#include <asm/cpufeature.h>
#include <asm/machine.h>
#include <asm/sections.h>
#include <asm/setup.h>
#include <asm/uaccess.h>

struct tane_boot *tane_boot __ro_after_init;
EXPORT_SYMBOL(tane_boot);
unsigned long tane_window_end __ro_after_init;
EXPORT_SYMBOL(tane_window_end);

void __init tane_start_kernel(struct tane_boot *boot)
{
	tane_boot = boot;
	tane_window_end = boot->vmalloc_end;
	tane_started = tane_monotonic();
	tane_vcpu_set(current_task, (u64)&init_task);
	tane_vcpu_set(irq_enabled, ARCH_IRQ_DISABLED);
	tane_vcpu_set(deadline, ~0ULL);
	start_kernel();
}

int tane_random(void *buf, size_t len)
{
	return tane_host(random, buf, len, 0, 0);
}

void __init setup_arch(char **cmdline_p)
{
	tane_console_init();
	tane_init_panic();
	scnprintf(boot_command_line, COMMAND_LINE_SIZE, "%s%s%s",
		  CONFIG_CMDLINE, *CONFIG_CMDLINE ? " " : "",
		  tane_boot->cmdline);
	*cmdline_p = boot_command_line;
	parse_early_param();

	pr_info("tane: image at %px (%s), %llu MiB RAM\n", _text,
		tane_boot->randomised ? "randomised" : "not randomised: nokaslr",
		tane_boot->ram_size >> 20);
	tane_detect_cpu();
	tane_init_memory();
#ifdef CONFIG_SMP
	tane_init_cpus();
#endif
	tane_skip_initcalls();
}

void __init arch_cpu_finalize_init(void)
{
}

static int show_cpuinfo(struct seq_file *m, void *v)
{
	unsigned long cpu = (unsigned long)v - 1;

	seq_printf(m, "processor\t: %lu\n", cpu);
	seq_puts(m, "model name\t: virtual CPU of the host process\n\n");
	return 0;
}

static void *c_start(struct seq_file *m, loff_t *pos)
{
	*pos = cpumask_next(*pos - 1, cpu_online_mask);
	return *pos < nr_cpu_ids ? (void *)(unsigned long)(*pos + 1) : NULL;
}

static void *c_next(struct seq_file *m, void *v, loff_t *pos)
{
	(*pos)++;
	return c_start(m, pos);
}

static void c_stop(struct seq_file *m, void *v)
{
}

const struct seq_operations cpuinfo_op = {
	.start	= c_start,
	.next	= c_next,
	.stop	= c_stop,
	.show	= show_cpuinfo,
};
