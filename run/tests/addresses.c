/* Programs that have addresses of their own, beside each other. One word says what. */
#include "process.h"

/* Memory where another program has its own, whose bytes come from there. */
static int guest_at(char *address)
{
	char *at = (char *)strtoul(address, NULL, 0), said;

	CHECK(mmap(at, 4096, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at);
	CHECK(!*at);
	for (char i = 1; read(0, &said, 1) == 1; i++) {
		CHECK(*at == i - 1 && said == i);
		*at = i;
		CHECK(write(1, at, 1) == 1);
	}
	return 0;
}

/* Three programs have a page of their own at one address. */
static int addresses(void)
{
	int there[2][2], back[2][2], pids[2];
	char *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char address[32], *words[] = { self, "at", address, NULL };

	CHECK(at != MAP_FAILED);
	*at = 77;
	snprintf(address, sizeof(address), "%p", (void *)at);
	for (int k = 0; k < 2; k++) {
		posix_spawn_file_actions_t actions;

		CHECK(!pipe2(there[k], O_CLOEXEC) && !pipe2(back[k], O_CLOEXEC));
		CHECK(!posix_spawn_file_actions_init(&actions));
		posix_spawn_file_actions_adddup2(&actions, there[k][0], 0);
		posix_spawn_file_actions_adddup2(&actions, back[k][1], 1);
		CHECK(!posix_spawn(&pids[k], self, &actions, NULL, words, NULL));
	}
	for (char i = 1; i < 100; i++) {
		for (int k = 0; k < 2; k++)
			CHECK(write(there[k][1], &i, 1) == 1);
		(*at)++;
		for (int k = 0; k < 2; k++) {
			char said = 0;

			CHECK(read(back[k][0], &said, 1) == 1 && said == i);
		}
		CHECK(*at == (char)(77 + i));
	}
	for (int k = 0; k < 2; k++) {
		close(there[k][1]);
		CHECK(!wait_for(pids[k]));
	}
	printf("%d\n", (unsigned char)*at);
	return 0;
}

/* Programs with addresses of their own compute beside each other, and write there. */
static int computing(char *seed)
{
	static unsigned long words[1 << 16];
	unsigned long sum = strtoul(seed, NULL, 0);

	for (int i = 0; i < 1 << 22; i++) {
		sum = sum * 6364136223846793005 + 1;
		words[sum >> 48] += sum;
	}
	for (int i = 0; i < 1 << 16; i++)
		sum ^= words[i];
	printf("%lx\n", sum);
	return 0;
}

static int beside(void)
{
	int pids[6];

	for (int k = 0; k < 6; k++) {
		char seed[8], *words[] = { self, "computing", seed, NULL };

		snprintf(seed, sizeof(seed), "%d", k / 2 * 2);
		CHECK(!posix_spawn(&pids[k], self, NULL, NULL, words, NULL));
		/* Lines that are equal have no order. */
		if (k % 2)
			CHECK(!wait_for(pids[k - 1]) && !wait_for(pids[k]));
	}
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	self = argv[0];
	setvbuf(stdout, NULL, _IONBF, 0);
	if (!strcmp(what, "addresses"))
		return addresses();
	if (!strcmp(what, "at"))
		return guest_at(argv[2]);
	if (!strcmp(what, "beside"))
		return beside();
	if (!strcmp(what, "computing"))
		return computing(argv[2]);
	return 2;
}
