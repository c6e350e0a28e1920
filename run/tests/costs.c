/* What processes cost, measured by a program itself. */
#include "process.h"

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

#define RUNS 301

static void tell(const char *what, double *us)
{
	qsort(us, RUNS, sizeof(*us), by_value);
	printf("%-20s %9.1f us, median %9.1f\n", what, us[0], us[RUNS / 2]);
}

/* Microseconds, the least and the median. */
static int cost(void)
{
	static double us[RUNS];
	char *argv[] = { self, "exit", "0", NULL }, byte = 1;
	int there[2], back[2], pid;

	for (int i = 0; i < RUNS; i++) {
		double from = now_us();

		pid = fork();
		if (!pid)
			_exit(0);
		wait_for(pid);
		us[i] = now_us() - from;
	}
	tell("fork, exit, wait", us);
	for (int i = 0; i < RUNS; i++) {
		double from = now_us();

		CHECK(!posix_spawn(&pid, self, NULL, NULL, argv, NULL));
		wait_for(pid);
		us[i] = now_us() - from;
	}
	tell("posix_spawn, wait", us);
	CHECK(!pipe(there) && !pipe(back));
	pid = fork();
	if (!pid) {
		close(there[1]);
		while (read(there[0], &byte, 1) == 1)
			CHECK(write(back[1], &byte, 1) == 1);
		_exit(0);
	}
	for (int i = 0; i < RUNS; i++) {
		double from = now_us();

		for (int turn = 0; turn < 10; turn++) {
			CHECK(write(there[1], &byte, 1) == 1);
			CHECK(read(back[0], &byte, 1) == 1);
		}
		us[i] = (now_us() - from) / 10;
	}
	tell("round trip by pipes", us);
	close(there[1]);
	wait_for(pid);
	return 0;
}

int main(int argc, char **argv)
{
	self = argv[0];
	/* Whom it spawns. */
	if (argc > 1)
		return 0;
	return cost();
}
