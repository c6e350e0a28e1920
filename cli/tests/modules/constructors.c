/* What is called before main and after it, in which order; objects.cpp has the rest. */
#include <stdio.h>
#include <stdlib.h>

static int count;

__attribute__((constructor(102))) static void second(void)
{
	printf("%d second\n", ++count);
}

__attribute__((constructor(101))) static void first(int argc, char **argv)
{
	printf("%d first, of %d words\n", ++count, argc);
}

__attribute__((constructor)) static void last(void)
{
	printf("%d last\n", ++count);
}

__attribute__((destructor)) static void end(void)
{
	printf("%d end\n", ++count);
}

__attribute__((destructor(101))) static void very_end(void)
{
	printf("%d very end\n", ++count);
}

static void at_exit(void)
{
	printf("%d at exit\n", ++count);
}

int sum(void);

int main(int argc, char **argv)
{
	atexit(at_exit);
	printf("%d main: %d\n", ++count, sum());
	return 4;
}
