// Arguments on the stack, structures by value, arrays whose length is found out late.
struct three { long a, b, c; };
struct pair { double x; int y; };

__attribute__((noinline)) static long many(int a, long b, char c, short d, int e, long f,
	int g, long h, struct three i, int j)
{
	return a + 2 * b + 3 * c + 5 * d + 7 * e + 11 * f + 13 * g + 17 * h + 19 * i.a
		+ 23 * i.b + 29 * i.c + 31 * j;
}

__attribute__((noinline)) static struct three rotate(struct three s)
{
	return (struct three){ s.b, s.c, s.a };
}

__attribute__((noinline)) static struct pair swap(struct pair p, int by)
{
	return (struct pair){ p.y + by, (int)p.x };
}

__attribute__((noinline)) static long fill(long *to, long n)
{
	for (long i = 0; i < n; i++) to[i] = i * i;
	return to[n - 1];
}

__attribute__((noinline)) static long late(long n)
{
	long array[n], more[2 * n + 1];
	long last = fill(array, n) + fill(more, 2 * n + 1);
	for (long i = 0; i < n; i++) last += array[i] ^ more[2 * i];
	return last + many(1, n, 3, 4, 5, 6, 7, array[n / 2], (struct three){ 1, 2, 3 }, 9);
}

__attribute__((noinline)) static int find(const char *text, char c)
{
	char buffer[100];
	int n = 0;
	for (; text[n]; n++) buffer[n] = text[n] ^ 1;
	while (n-- > 0) if (buffer[n] == (c ^ 1)) return n;
	return -1;
}

__attribute__((noinline)) static long name(unsigned which)
{
	switch (which) {
	case 0: return find("zero", 'r');
	case 1: return -1;
	case 2: return find("two and a half", 'a');
	case 3: return 1 << which;
	case 4: case 5: case 6: return which * which;
	case 9: return (long)(signed char)(which * 30);
	default: return find("none of these", 'n');
	}
}

unsigned long work(unsigned long n)
{
	unsigned long sum = 0;
	for (unsigned long i = 1; i <= n; i++) {
		struct three s = rotate((struct three){ i, 2 * i, 3 * i });
		struct pair p = swap((struct pair){ i * 1.5, (int)i }, 3);
		sum = sum * 33 + late(1 + i % 40) + s.a - s.c + (long)(p.x * 8) + p.y;
		sum += name(i % 12) + (sum >> 60) + __builtin_ctzl(i) + __builtin_bswap64(sum);
	}
	return sum;
}
