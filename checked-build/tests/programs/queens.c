// Deep recursion and calls that cannot be inlined.
__attribute__((noinline)) static unsigned long place(unsigned all, unsigned columns,
	unsigned left, unsigned right)
{
	unsigned long found = 0;
	if (columns == all) return 1;
	for (unsigned free = all & ~(columns | left | right); free; free &= free - 1) {
		unsigned bit = free & -free;
		found += place(all, columns | bit, (left | bit) << 1, (right | bit) >> 1);
	}
	return found;
}

unsigned long work(unsigned long n)
{
	unsigned long sum = 0;
	while (n--) sum += place((1u << 8) - 1, 0, 0, 0);
	return sum;
}
