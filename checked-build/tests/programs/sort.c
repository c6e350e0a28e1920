// Sorting through function pointers, some of them in static data.
typedef int (*compare)(const void *, const void *);
static int up(const void *a, const void *b) { return *(int *)a - *(int *)b; }
static int down(const void *a, const void *b) { return *(int *)b - *(int *)a; }
static const compare orders[] = { up, down };
static int numbers[4096];

static void sort(int *a, long n, compare by)
{
	while (n > 1) {
		int pivot = a[(n - 1) / 2];
		long i = 0, j = n - 1;
		for (;;) {
			while (by(&a[i], &pivot) < 0) i++;
			while (by(&a[j], &pivot) > 0) j--;
			if (i >= j) break;
			int t = a[i]; a[i++] = a[j]; a[j--] = t;
		}
		if (j + 1 < n - j - 1) { sort(a, j + 1, by); a += j + 1; n -= j + 1; }
		else { sort(a + j + 1, n - j - 1, by); n = j + 1; }
	}
}

unsigned long work(unsigned long n)
{
	unsigned long seed = n, sum = 0;
	for (unsigned long round = 0; round < n; round++) {
		for (int i = 0; i < 4096; i++) {
			seed = seed * 6364136223846793005ul + 1442695040888963407ul;
			numbers[i] = (int)(seed >> 40);
		}
		sort(numbers, 4096, orders[round & 1]);
		for (int i = 1; i < 4096; i++)
			if (orders[round & 1](&numbers[i - 1], &numbers[i]) > 0)
				return 0;
		sum = sum * 31 + numbers[17];
	}
	return sum;
}
