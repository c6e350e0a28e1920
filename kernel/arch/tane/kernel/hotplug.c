// SPDX-License-Identifier: GPL-2.0-only
/*
 * A virtual CPU goes: nobody enters it any more, and what the host's threads
 * asked of it is done by the first one, which never goes. It comes back like it
 * came at first (smp.c).
 */
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/sched/hotplug.h>
#include <linux/smp.h>
#include <asm/machine.h>
#include "smp.h"

bool arch_cpu_is_hotpluggable(int cpu)
{
	return cpu != 0;
}

int __cpu_disable(void)
{
	set_cpu_online(smp_processor_id(), false);
	return 0;
}

void __noreturn arch_cpu_idle_dead(void)
{
	struct tane_vcpu *vcpu = tane_vcpu();

	idle_task_exit();
	local_irq_disable();
	vcpu->deadline = ~0ULL;
	/* Whoever has not seen it has left its request where it will be found. */
	smp_store_mb(vcpu->online, 0);
	tane_send_ipi(0, TANE_IRQ_REQUEST);
	cpuhp_ap_report_dead();
	for (;;)
		tane_leave(TANE_EXIT_IDLE);
}
