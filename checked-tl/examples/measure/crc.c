static long all[256];
static unsigned char data[50000];

static __attribute__((noinline)) void table(void)
{
	for (long i = 0; i < 256; i++) {
		long c = i;
		for (long k = 0; k < 8; k++)
			c = c & 1 ? c >> 1 ^ 0xedb88320 : c >> 1;
		all[i] = c;
	}
}

static __attribute__((noinline)) long crc(unsigned char *of, long length)
{
	long c = 0xffffffff;
	for (long i = 0; i < length; i++)
		c = all[(c ^ of[i]) & 0xff] ^ c >> 8;
	return c ^ 0xffffffff;
}

long work(long n)
{
	for (long i = 0; i < 50000; i++)
		data[i] = (i * 7 + n) & 0xff;
	table();
	return crc(data, 50000);
}
