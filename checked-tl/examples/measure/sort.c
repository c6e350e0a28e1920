static __attribute__((noinline)) void sort(long *all, long length)
{
	for (long gap = length / 2; gap > 0; gap /= 2)
		for (long i = gap; i < length; i++) {
			long one = all[i], j = i;
			for (; j >= gap && all[j - gap] > one; j -= gap)
				all[j] = all[j - gap];
			all[j] = one;
		}
}

long work(long n)
{
	static long all[3000];
	long x = n, sum = 0;
	for (long i = 0; i < 3000; i++) {
		x = (x * 1103515245 + 12345) & 0x7fffffff;
		all[i] = x;
	}
	sort(all, 3000);
	for (long i = 0; i < 3000; i++)
		sum = (sum * 31 + all[i]) & 0xffffffff;
	return sum;
}
