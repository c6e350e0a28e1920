// SPDX-License-Identifier: GPL-2.0-only
/*
 * Time is the host's. A virtual CPU has one deadline; its service thread sleeps
 * until then and raises TANE_IRQ_TIMER.
 */
#include <linux/clockchips.h>
#include <linux/clocksource.h>
#include <linux/cpu.h>
#include <linux/delay.h>
#include <linux/init.h>
#include <linux/interrupt.h>
#include <linux/sched/clock.h>
#include <linux/timekeeping.h>
#include <asm/machine.h>
#include <asm/setup.h>
#include <asm/vcpu.h>

static DEFINE_PER_CPU(struct clock_event_device, tane_clockevent);

u64 tane_started __ro_after_init;

static int tane_set_next_event(unsigned long delta,
			       struct clock_event_device *evt)
{
	struct tane_vcpu *vcpu = tane_vcpu();
	u64 deadline = tane_monotonic() + delta;

	WRITE_ONCE(vcpu->deadline, deadline);
	virt_mb();	/* deadline before sleep_until, the host has it reversed */
	if (deadline < READ_ONCE(vcpu->sleep_until))
		tane_kick(vcpu->cpu);
	return 0;
}

static int tane_stop_timer(struct clock_event_device *evt)
{
	tane_vcpu_set(deadline, ~0ULL);
	return 0;
}

void tane_timer_interrupt(void)
{
	struct clock_event_device *evt = this_cpu_ptr(&tane_clockevent);

	/* This CPU has been busy for a tick: nobody shall wait longer for it. */
	if (IS_ENABLED(CONFIG_SMP) && tane_vcpu_get(kicks))
		tane_yield();
	tane_vcpu_set(deadline, ~0ULL);
	if (evt->event_handler)
		evt->event_handler(evt);
}

void tane_setup_timer(void)
{
	struct clock_event_device *evt = this_cpu_ptr(&tane_clockevent);

	evt->name = "host";
	evt->features = CLOCK_EVT_FEAT_ONESHOT;
	evt->rating = 300;
	evt->cpumask = cpumask_of(smp_processor_id());
	evt->set_next_event = tane_set_next_event;
	evt->set_state_shutdown = tane_stop_timer;
	evt->set_state_oneshot_stopped = tane_stop_timer;
	clockevents_config_and_register(evt, NSEC_PER_SEC, 1000, LONG_MAX);
}

static u64 tane_read_clock(struct clocksource *cs)
{
	return tane_monotonic();
}

static struct clocksource tane_clocksource = {
	.name	= "host",
	.rating	= 400,
	.read	= tane_read_clock,
	.mask	= CLOCKSOURCE_MASK(64),
	.flags	= CLOCK_SOURCE_IS_CONTINUOUS,
};

/* Counts from the start of this kernel, like every dmesg. */
u64 notrace sched_clock(void)
{
	return tane_monotonic() - tane_started;
}

void read_persistent_clock64(struct timespec64 *ts)
{
	*ts = ns_to_timespec64(tane_realtime());
}

/* Delays watch the clock, so there is no loop to calibrate. */
unsigned long calibrate_delay_is_known(void)
{
	return NSEC_PER_SEC / HZ;
}

void __init time_init(void)
{
#ifdef CONFIG_TANE_RUN
	/* Programs read it themselves (vdso/). */
	if (tane_boot->clock_gettime)
		tane_clocksource.vdso_clock_mode = VDSO_CLOCKMODE_HOST;
#endif
	clocksource_register_hz(&tane_clocksource, NSEC_PER_SEC);
	tane_setup_timer();
}
