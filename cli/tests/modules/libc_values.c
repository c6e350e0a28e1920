// SPDX-License-Identifier: GPL-2.0-only
/* What cli/tests/modules/libc.rs compares with the host's: it prints the same with any C library. */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int by_value(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static void at_the_end(void)
{
	puts("at the end");
}

static void numbers(void)
{
	static const double values[] = { 0.1, 1e300, 5e-324, 2.5, -1.0 / 3, 123456789.125 };

	for (int i = 0; i < 6; i++)
		printf("%g %.17g %10.3f|%e\n", values[i], values[i],
		       fabs(values[i]) < 1e10 ? values[i] : 1.0, values[i]);
	printf("%.9f %.9f %.9f %.9f\n", sin(1), pow(2, 0.5), log(10), atan2(1, -2));
	printf("%d %u %ld %lx %#o %5d|%-5d|%05d %c %s %.3s\n", -5, 7u, 1L << 40, ~0ul, 8, 42, 42,
	       42, 'x', "word", "cut off");
	printf("%.17g %ld %lu\n", strtod("1.7976931348623157e308", 0), strtol("-0x7f", 0, 0),
	       strtoul("0777", 0, 8));
}

/* GCC knows where this leads to, and says so. */
static int of_nothing(int wanted)
{
	return wanted ? *(volatile int *)0 : 0;
}

static void memory(void)
{
	int order[1000];
	char *many[500];
	unsigned long sum = 0;

	srand(1);
	sum += of_nothing(rand() < 0);
	for (int i = 0; i < 1000; i++)
		order[i] = i * 7919 % 1000;
	qsort(order, 1000, sizeof(*order), by_value);
	for (int i = 0; i < 1000; i++)
		sum += order[i] == i;
	for (int turn = 0; turn < 20; turn++) {
		for (int i = 0; i < 500; i++) {
			size_t bytes = (i * 977 + turn * 131) % 20000 + 1;

			many[i] = turn % 2 ? calloc(1, bytes) : malloc(bytes);
			if (turn % 2)
				sum += many[i][bytes / 2];
			memset(many[i], i, bytes);
			many[i] = realloc(many[i], bytes * 3);
			sum += (unsigned char)many[i][bytes - 1] == (i & 255);
		}
		for (int i = 0; i < 500; i++)
			free(many[i * 3 % 500]);
	}
	printf("%lu\n", sum);
}

static void files(void)
{
	char line[100], *word;
	struct stat stat_of;
	int count, found = 0;
	FILE *file = fopen("greeting", "r");

	if (!file) {
		printf("%d\n", errno == ENOENT);
		return;
	}
	while (fgets(line, sizeof(line), file))
		printf("%s", line);
	printf("%ld %d\n", ftell(file), feof(file) != 0);
	rewind(file);
	printf("%d\n", fgetc(file));
	fclose(file);
	count = stat("greeting", &stat_of);
	printf("%d %ld\n", count, (long)stat_of.st_size);
	file = fopen("made", "w+");
	fprintf(file, "%s-%d", "made", 7);
	fseek(file, 0, SEEK_SET);
	count = fscanf(file, "made-%d", &found);
	printf("%d %d %d\n", count, found, fclose(file));
	printf("%d\n", rename("made", "moved"));
	printf("%d\n", unlink("moved"));
	printf("%d\n", open("nothing", O_RDONLY));
	printf("%d\n", errno == ENOENT);
	while (fgets(line, sizeof(line), stdin))
		for (word = strtok(line, " \n"); word; word = strtok(0, " \n"))
			printf("%c%s\n", toupper(*word), word + 1);
}

int main(int argc, char **argv)
{
	struct tm tm = { .tm_year = 99, .tm_mon = 11, .tm_mday = 31 };
	char date[50];

	atexit(at_the_end);
	numbers();
	memory();
	files();
	timegm(&tm);
	strftime(date, sizeof(date), "%Y-%m-%d %A", &tm);
	printf("%s %d %d %s\n", date, tm.tm_wday, argc, argv[argc] ? "" : "null");
	fprintf(stderr, "an error\n");
	exit(3);
}
