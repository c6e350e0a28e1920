// SPDX-License-Identifier: GPL-2.0-only
/* What cli/tests/modules/run_module.rs runs: the first letter of its argument says what it does. */
#include <tane/module.h>
static unsigned long length(const char *s) { unsigned long n = 0; while (s[n]) n++; return n; }
static void say(const char *s) { tane_output(1, s, length(s)); }
static int divide(int a, int b) { return a / b; }
static int deep(int n) { volatile char room[200]; room[n % 200] = 1; return n ? deep(n - 1) + room[1] : 0; }
static int failures;
static void inner(void *a, void *b)
{
	volatile char room[3000];

	room[5] = 1;
	if (b)
		tane_throw();
	failures += !a + !room[5];
}
static void outer(void *a, void *b)
{
	failures += tane_try(inner, a, b) != (b != 0);
	tane_throw();
}
static int throws(int argc)
{
	long keep[4] = { argc, 2, 3, 4 };

	for (long i = 1; i < 1000; i++) {
		failures += tane_try(inner, (void *)i, 0) != 0;
		failures += tane_try(inner, (void *)i, (void *)1) != 1;
		failures += tane_try(outer, (void *)i, (void *)(i & 1)) != 1;
		failures += keep[0] != argc || keep[3] != 4;
	}
	return failures;
}
static void nest(void *a, void *b) { tane_try(nest, a, b); }
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
	if (what[0] == 't')
		return throws(argc);
	if (what[0] == 'n')
		nest(0, 0);
	if (what[0] == 'T')
		tane_throw();
	if (what[0] == 'w')
		/* By the mask of any table it is the number of nobody's slot. */
		tane_try((void (*)(void *, void *))(1l << 30), 0, 0);
	if (what[0] == 'x')
		tane_exit(7);
	while ((n = tane_input(buf, sizeof(buf))) > 0)
		tane_output(1, buf, n);
	say("done\n");
	return 3;
}
