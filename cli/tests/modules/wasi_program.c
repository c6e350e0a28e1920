// SPDX-License-Identifier: GPL-2.0-only
/* For the host and for WASI: what it prints is compared. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void list(const char *path)
{
	DIR *directory = opendir(path);
	char *names[64];
	int count = 0;

	for (struct dirent *entry; (entry = readdir(directory)) && count < 64;)
		names[count++] = strdup(entry->d_name);
	closedir(directory);
	qsort(names, count, sizeof(*names), by_name);
	for (int i = 0; i < count; i++)
		printf("%s%c", names[i], i + 1 < count ? ' ' : '\n');
}

static void files(void)
{
	char text[100] = "";
	struct stat stat_of;
	FILE *file = fopen("made", "w+");

	fprintf(file, "one\ntwo\nthree\n");
	fseek(file, 4, SEEK_SET);
	printf("%s", fgets(text, sizeof(text), file));
	printf("at %ld\n", ftell(file));
	fclose(file);
	file = fopen("made", "a");
	fprintf(file, "four\n");
	fclose(file);
	printf("%d ", stat("made", &stat_of));
	printf("%d bytes, %d\n", (int)stat_of.st_size, S_ISREG(stat_of.st_mode));
	printf("%d ", mkdir("below", 0700));
	printf("%d ", rename("made", "below/moved"));
	printf("%d ", symlink("moved", "below/link"));
	printf("%d\n", (int)readlink("below/link", text, 100));
	printf("%s %d\n", text, open("below/link", O_RDONLY | O_NOFOLLOW) < 0 && errno == ELOOP);
	list("below");
	printf("%d ", truncate("below/moved", 3));
	printf("%d ", stat("below/link", &stat_of));
	printf("%d\n", (int)stat_of.st_size);
	printf("%d ", unlink("below/link"));
	printf("%d ", unlink("below/moved"));
	printf("%d ", rmdir("below"));
	printf("%d ", rmdir("below"));
	printf("%s\n", strerror(errno));
	printf("%d ", open("none/none", O_RDONLY));
	printf("%d\n", errno == ENOENT);
}

static void memory(void)
{
	size_t bytes = 3000;
	unsigned char *all = malloc(bytes);
	uint64_t sum = 0;

	memset(all, 7, bytes);
	for (int turn = 0; turn < 12; turn++, bytes *= 2) {
		all = realloc(all, bytes * 2);
		memset(all + bytes, turn, bytes);
	}
	for (size_t i = 0; i < bytes; i++)
		sum += all[i] * (i + 1);
	printf("%" PRIu64 "\n", sum);
	free(all);
}

/* At places that have no room in an instruction's displacement for compilers of C. */
static volatile struct {
	uint64_t near, gap[4 << 20], word;
	uint32_t half;
	uint16_t quarter;
	uint8_t byte;
} far;

static void far_away(int n)
{
	far.word = n * UINT64_C(0x0123456789abcdef);
	far.half = far.word;
	far.quarter = far.half;
	far.byte = far.quarter;
	printf("%" PRIx64 " %x %x %x\n", far.word, far.half, far.quarter, far.byte);
}

int main(int argc, char **argv)
{
	struct timespec before, after;
	unsigned char random[2][16];
	char line[100];

	for (int i = 1; i < argc; i++)
		printf("%s%s", argv[i], i + 1 < argc ? " " : "\n");
	while (fgets(line, sizeof(line), stdin))
		printf("%zu %s", strlen(line), line);
	printf("\n%.17g %g %g\n", 1 / 3., sqrt(2), pow(2, 0.5));
	printf("%" PRId64 " %" PRIu64 "\n", INT64_MIN, UINT64_MAX / 10);
	memory();
	far_away(argc);
	files();
	list(".");
	clock_gettime(CLOCK_MONOTONIC, &before);
	usleep(2000);
	clock_gettime(CLOCK_MONOTONIC, &after);
	printf("%d\n", (after.tv_sec - before.tv_sec) * 1000000000LL + after.tv_nsec -
		       before.tv_nsec >= 2000000);
	printf("%d\n", time(NULL) > 1700000000);
	getentropy(random[0], 16);
	getentropy(random[1], 16);
	printf("%d\n", !!memcmp(random[0], random[1], 16));
	fprintf(stderr, "to errors\n");
	return 3;
}
