// SPDX-License-Identifier: GPL-2.0-only
/* Signals that are blocked, queued, waited for and handled, and timers. */
#define _GNU_SOURCE
#include "random.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int numbers[] = {
	SIGUSR1, SIGUSR2, SIGTERM, SIGHUP, SIGCHLD, SIGWINCH, SIGALRM, SIGIO,
};

/* What handlers saw, in order. */
static volatile int seen[64][3];
static volatile int seen_count;
static volatile double disturbed;

static void handle(int number, siginfo_t *info, void *context)
{
	(void)context;
	/* Vector registers are the handler's own. */
	disturbed = disturbed * 1.5 + number;
	if (seen_count < 64) {
		seen[seen_count][0] = number;
		seen[seen_count][1] = info->si_code;
		seen[seen_count][2] = info->si_code == SI_QUEUE ? info->si_value.sival_int : 0;
		seen_count++;
	}
}

static int any(void)
{
	uint32_t which = roll(12);

	return which < 8 ? numbers[which] : SIGRTMIN + (int)which - 8;
}

static const char *label(int number)
{
	static char text[16];

	if (number >= SIGRTMIN)
		snprintf(text, sizeof(text), "RT%d", number - SIGRTMIN);
	else
		snprintf(text, sizeof(text), "%d", number);
	return text;
}

static void tell_seen(void)
{
	for (int i = 0; i < seen_count; i++)
		tell("handled %s, code %d, value %d", label(seen[i][0]), seen[i][1], seen[i][2]);
	seen_count = 0;
}

static void tell_pending(void)
{
	sigset_t pending;
	uint64_t bits = 0;

	sigpending(&pending);
	for (int i = 0; i < 8; i++)
		bits |= (uint64_t)sigismember(&pending, numbers[i]) << i;
	for (int i = 0; i < 4; i++)
		bits |= (uint64_t)sigismember(&pending, SIGRTMIN + i) << (8 + i);
	tell("pending %03llx", (unsigned long long)bits);
}

static void send(void)
{
	int number = any();
	union sigval value = { .sival_int = roll(1000) };

	switch (roll(3)) {
	case 0: tell("raise %s: %s", label(number), error_of(raise(number))); break;
	case 1: tell("kill %s: %s", label(number), error_of(kill(getpid(), number))); break;
	case 2: tell("queue %s: %s", label(number), error_of(sigqueue(getpid(), number, value)));
	}
}

static void take(sigset_t *all)
{
	struct timespec none = { 0 };
	siginfo_t info;
	int number = sigtimedwait(all, &info, &none);

	if (number < 0)
		tell("taken: %s", error_of(-1));
	else
		tell("taken %s, code %d", label(number), info.si_code);
}

void do_signals(void)
{
	struct sigaction action = { .sa_sigaction = handle }, before[12];
	sigset_t all, old;

	sigemptyset(&all);
	for (int i = 0; i < 12; i++) {
		int number = i < 8 ? numbers[i] : SIGRTMIN + i - 8;

		sigaddset(&all, number);
		action.sa_flags = SA_SIGINFO | (roll(2) ? SA_RESTART : 0) | (roll(4) ? 0 : SA_NODEFER);
		sigfillset(&action.sa_mask);
		sigaction(number, &action, &before[i]);
	}
	sigprocmask(SIG_BLOCK, &all, &old);
	for (int n = 3 + roll(12); n; n--) {
		switch (roll(6)) {
		case 0: take(&all); break;
		case 1: tell_pending(); break;
		case 2:
			sigprocmask(SIG_SETMASK, &old, NULL);
			sigprocmask(SIG_BLOCK, &all, NULL);
			tell_seen();
			break;
		default: send();
		}
	}
	if (roll(2)) {
		sigset_t pending;

		sigpending(&pending);
		if (!sigisemptyset(&pending)) {
			tell("suspended: %s", error_of(sigsuspend(&old)));
			tell_seen();
		}
	}
	sigprocmask(SIG_SETMASK, &old, NULL);
	tell_seen();
	for (int i = 0; i < 12; i++)
		sigaction(i < 8 ? numbers[i] : SIGRTMIN + i - 8, &before[i], NULL);
}

/* A computation that is interrupted has the result that it has undisturbed. */
void do_timers(void)
{
	struct sigaction action = { .sa_sigaction = handle, .sa_flags = SA_SIGINFO }, before;
	struct itimerval often = { { 0, 2000 + roll(3000) }, { 0, 1000 } }, never = { 0 };
	struct timespec nap = { 0, 200000000 }, left;
	int wanted = 1 + roll(3);
	double sum = 0;
	uint32_t word = roll(1 << 30);

	sigaction(SIGALRM, &action, &before);
	seen_count = 0;
	setitimer(ITIMER_REAL, &often, NULL);
	while (seen_count < wanted)
		;
	for (int i = 1; i < 200000; i++) {
		word = word * 1664525 + 1013904223;
		sum += (double)word / i;
	}
	tell("nap: %s", error_of(nanosleep(&nap, &left)));
	setitimer(ITIMER_REAL, &never, NULL);
	tell("%d or more signals, %a", wanted, sum);
	seen_count = 0;
	sigaction(SIGALRM, &before, NULL);
}
