static __attribute__((noinline)) long place(long row, long size, long columns, long left, long right)
{
	if (row == size)
		return 1;
	long count = 0;
	for (long i = 0; i < size; i++) {
		long bit = 1L << i;
		if (!(columns & bit) && !(left & bit) && !(right & bit))
			count += place(row + 1, size, columns | bit, (left | bit) << 1, (right | bit) >> 1);
	}
	return count;
}

long work(long n)
{
	return place(0, 8 + (n & 0), 0, 0, 0);
}
