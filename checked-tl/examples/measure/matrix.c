static long a[3600], b[3600], c[3600];

static __attribute__((noinline)) void multiply(long *a, long *b, long *c, long n)
{
	for (long i = 0; i < n; i++)
		for (long j = 0; j < n; j++) {
			long sum = 0;
			for (long k = 0; k < n; k++)
				sum += a[i * n + k] * b[k * n + j];
			c[i * n + j] = sum;
		}
}

long work(long n)
{
	long sum = 0;
	for (long i = 0; i < 3600; i++) {
		a[i] = (i * 7 + n) % 101;
		b[i] = (i * 13 + n) % 103;
	}
	multiply(a, b, c, 60);
	for (long i = 0; i < 3600; i++)
		sum += c[i] % 1000;
	return sum;
}
