// SPDX-License-Identifier: GPL-2.0-only
/*
 * Several virtual CPUs. One comes to life when its service thread enters it for
 * the first time; an IPI is a pending bit, and a kick when nobody is inside.
 */
#include <linux/cpu.h>
#include <linux/sched/hotplug.h>
#include <linux/sched/mm.h>
#include <linux/sched/task_stack.h>
#include <linux/sched/topology.h>
#include <linux/smp.h>
#include <asm/machine.h>
#include <asm/setup.h>
#include "smp.h"

void tane_send_ipi(unsigned int cpu, unsigned int irq)
{
	struct tane_vcpu *vcpu = tane_boot->vcpus + cpu;

	tane_raise(vcpu, irq);
	smp_mb();	/* pending before lock; the host unlocks, then looks */
	/* Who spins for it sees the bit, or tells when he stops. */
	if ((s32)READ_ONCE(vcpu->spinners) > 0)
		return;
	/* Whoever keeps a CPU comes and goes without a barrier. */
	if (!READ_ONCE(vcpu->lock) || READ_ONCE(vcpu->bias))
		tane_kick(cpu);
}

void arch_smp_send_reschedule(int cpu)
{
	tane_send_ipi(cpu, TANE_IRQ_RESCHEDULE);
}

void arch_send_call_function_single_ipi(int cpu)
{
	tane_send_ipi(cpu, TANE_IRQ_CALL);
}

void arch_send_call_function_ipi_mask(const struct cpumask *mask)
{
	unsigned int cpu;

	for_each_cpu(cpu, mask)
		tane_send_ipi(cpu, TANE_IRQ_CALL);
}

void tane_smp_interrupt(unsigned int irq)
{
	generic_smp_call_function_interrupt();
}

void __init tane_init_cpus(void)
{
	unsigned int cpu;

	for (cpu = 0; cpu < min(tane_boot->nr_vcpus, nr_cpu_ids); cpu++) {
		set_cpu_possible(cpu, true);
		set_cpu_present(cpu, true);
	}
}

void __init smp_prepare_boot_cpu(void)
{
	tane_vcpu_set(percpu_offset, per_cpu_offset(0));
}

/*
 * All CPUs share a cache, as far as the scheduler need know: a task that is woken
 * stays on the idle CPU that its host thread waits at, instead of following its
 * waker, where the two threads would get in each other's way.
 */
static int tane_share_cache(void)
{
	return SD_SHARE_LLC;
}

static struct sched_domain_topology_level tane_topology[] = {
	{ cpu_cpu_mask, tane_share_cache, SD_INIT_NAME(PKG) },
	{ },
};

void __init smp_prepare_cpus(unsigned int max_cpus)
{
	set_sched_topology(tane_topology);
}

void __init smp_cpus_done(unsigned int max_cpus)
{
}

/* Called by tane_ret_from_online, the idle task's first instruction. */
void tane_start_secondary(void)
{
	unsigned int cpu = smp_processor_id();

	mmgrab(&init_mm);
	current->active_mm = &init_mm;
	cpumask_set_cpu(cpu, mm_cpumask(&init_mm));
	tane_setup_timer();
	notify_cpu_starting(cpu);
	set_cpu_online(cpu, true);
	local_irq_enable();
	cpu_startup_entry(CPUHP_AP_ONLINE_IDLE);
}

int __cpu_up(unsigned int cpu, struct task_struct *idle)
{
	struct tane_vcpu *vcpu = tane_boot->vcpus + cpu;

	/* When it went before, its last thread may still be on the way out. */
	while (READ_ONCE(vcpu->lock))
		cpu_relax();

	tane_park(idle, tane_ret_from_online);
	vcpu->kernel_sp = idle->thread.sp;
	vcpu->current_task = (u64)idle;
	/*
	 * It counts on when the CPU comes back: a call that was under way when
	 * it went must not find the number that it began with.
	 */
	if (vcpu->switches)
		vcpu->switches++;
	else
		vcpu->switches = (u64)cpu << 48;
	vcpu->percpu_offset = per_cpu_offset(cpu);
	vcpu->irq_enabled = ARCH_IRQ_DISABLED;
	/* Of what it was told before nothing counts, but for the end. */
	tane_lower(vcpu, ~BIT_ULL(TANE_IRQ_STOP));
	/* Requests that were left here for the first CPU, which may be late. */
	tane_raise(vcpu, TANE_IRQ_REQUEST);
	/* The service thread enters what was written before. */
	smp_store_release(&vcpu->online, 1);
	tane_send_ipi(cpu, TANE_IRQ_RESCHEDULE);

	while (!cpu_online(cpu))
		cpu_relax();
	return 0;
}

void smp_send_stop(void)
{
	/* The kernel ends as a whole: nobody enters any CPU again. */
}
