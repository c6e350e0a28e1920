/*
 * Bits of words in memory, that instructions change there; and a function that takes its
 * frame away by a pop into a register that nobody wants where it seldom comes, before it goes on
 * as another.
 */
struct flags {
	unsigned long first, second;
	unsigned int third;
};

static struct flags all[8];

__attribute__((noinline, noclone)) void set(struct flags *flags, int how)
{
	if (how & 1)
		flags->first |= 1ul << 33;
	if (how & 2)
		flags->second &= ~(1ul << 60);
	if (how & 4)
		flags->first ^= 1ul << 47;
	flags->third |= 1u << 31;
}

__attribute__((noinline, noclone)) int has(const struct flags *flags)
{
	return (flags->first & 1ul << 47) != 0;
}

__attribute__((noipa)) long part(long seed, const unsigned long *a, long c)
{
	/* As a function that is not seen. */
	asm volatile("" : "+r" (seed) : : "rcx", "r8", "r9", "r10", "memory");
	return seed * 31 + (long)(*a >> 20) + c;
}

__attribute__((noipa, cold)) long last(long seed, const unsigned long *a, long c)
{
	return part(seed ^ 5, a, c);
}

/* More registers than one, and eight bytes more for the alignment. */
__attribute__((noinline, noclone)) long compare(long seed, struct flags *a, struct flags *b, int deep)
{
	long found;

	if (!a)
		return 1;
	if (!b || a->third != b->third)
		return 2;
	found = part(seed, &a->first, deep);
	if (found % 3 == 0)
		return found;
	return last(found + seed, deep ? &a->second : &b->first, deep - 1);
}

unsigned long work(unsigned long n)
{
	unsigned long sum = n;

	for (int i = 0; i < 64; i++) {
		struct flags *flags = &all[i % 8];

		flags->second += 0x9e3779b97f4a7c15ul * i;
		set(flags, i / 3);
		sum = sum * 7 + flags->first + (flags->second >> 3) + has(flags);
		sum += compare(sum, i % 5 ? flags : 0, &all[(i + 3) % 8], i % 2);
	}
	return sum;
}
