long work(long n)
{
	static unsigned char crossed[20000];
	long count = n - n;
	for (long i = 0; i < 20000; i++)
		crossed[i] = 0;
	for (long i = 2; i < 20000; i++) {
		if (crossed[i])
			continue;
		count++;
		for (long j = i * i; j < 20000; j += i)
			crossed[j] = 1;
	}
	return count;
}
