// SPDX-License-Identifier: GPL-2.0-only
/* What cli/tests/run_module.rs runs: the first letter of its argument says what it does. */
#include <tane/module.h>
static unsigned long length(const char *s) { unsigned long n = 0; while (s[n]) n++; return n; }
static void say(const char *s) { tane_output(1, s, length(s)); }
static int divide(int a, int b) { return a / b; }
static int deep(int n) { volatile char room[200]; room[n % 200] = 1; return n ? deep(n - 1) + room[1] : 0; }
int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	char buf[64];
	long n;

	if (what[0] == 'd')
		return divide(7, argc - 2);
	if (what[0] == 's')
		return deep(1 << 30);
	if (what[0] == 'l')
		for (;;)
			getppid();
	if (what[0] == 'm')
		return *(volatile int *)(long)(argc * 6);
	if (what[0] == 'c')
		return ((int (*)(void))0)();
	if (what[0] == 'u')
		__builtin_trap();
	if (what[0] == 'x')
		tane_exit(7);
	while ((n = tane_input(buf, sizeof(buf))) > 0)
		tane_output(1, buf, n);
	say("done\n");
	return 3;
}
