// Bytes of every length up to some vectors, moved by every distance, set and compared.
void *memcpy(void *, const void *, __SIZE_TYPE__);
void *memmove(void *, const void *, __SIZE_TYPE__);
void *memset(void *, int, __SIZE_TYPE__);
int memcmp(const void *, const void *, __SIZE_TYPE__);
enum { LONGEST = 150, FARTHEST = 40, ALL = LONGEST + 2 * FARTHEST };
static unsigned char area[ALL], other[ALL];
static unsigned long sum;

static void begin(unsigned char seed)
{
	for (unsigned i = 0; i < ALL; i++) {
		area[i] = i * 7 + seed;
		other[i] = 0;
	}
}

static void count(const unsigned char *from)
{
	for (unsigned i = 0; i < ALL; i++)
		sum = sum * 31 + from[i];
}

static int sign(int n)
{
	return (n > 0) - (n < 0);
}

unsigned long work(unsigned long n)
{
	for (volatile unsigned long length = 0; length <= LONGEST; length++) {
		for (int by = -FARTHEST; by <= FARTHEST; by++) {
			begin(n);
			memmove(area + FARTHEST + by, area + FARTHEST, length);
			count(area);
		}
		begin(n);
		memcpy(other + 3, area + FARTHEST, length);
		memset(area + 5, 0x100 | (int)length, length);
		count(area);
		count(other);
		for (unsigned long at = 0; at < length; at++) {
			memcpy(other, area, ALL);
			sum += memcmp(area + 1, other + 1, length) == 0;
			other[1 + at] ^= 0x90;
			sum = sum * 3 + sign(memcmp(area + 1, other + 1, length));
			sum = sum * 3 + sign(memcmp(area + 1, other + 1, at));
		}
	}
	return sum;
}
