// Copies of all lengths and overlaps, by the functions that GCC calls.
void *memcpy(void *, const void *, __SIZE_TYPE__);
void *memmove(void *, const void *, __SIZE_TYPE__);
void *memset(void *, int, __SIZE_TYPE__);
int memcmp(const void *, const void *, __SIZE_TYPE__);
static unsigned char area[1024], other[1024];
struct large { char c[300]; };
static struct large one, two;

unsigned long work(unsigned long n)
{
	unsigned long sum = 0;
	for (unsigned i = 0; i < 1024; i++) area[i] = i * 13;
	while (n--) {
		for (unsigned long k = 0; k < 70; k++) {
			memmove(area + k, area + 35, 100 + k);
			memcpy(other + k, area + 2 * k, 3 * k);
			memset(other + 500, (int)k, k * 5);
			sum = sum * 31 + memcmp(area + k, other + k, 90);
		}
		one.c[n % 300]++;
		two = one;
		for (unsigned i = 0; i < 1024; i++) sum = sum * 31 + area[i] + other[i] + two.c[i % 300];
	}
	return sum;
}
