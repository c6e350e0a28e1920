// Switches whose tables of jumps are in functions that keep much: registers, arrays, memory of a
// size that is only known there, more arguments than registers, and calls.
typedef unsigned long word;

static word __attribute__((noinline)) far(word a, word b, word c, word d, word e, word f, word g,
					  word h)
{
	switch (g % 7) {
	case 0: return a + h;
	case 1: return b - h * 3;
	case 2: return c ^ h;
	case 3: return d * h + 1;
	case 4: return e - 7;
	case 5: return f | h;
	default: return g + (h >> 1);
	}
}

static word __attribute__((noinline)) kept(const unsigned char *at, word n, word *sums)
{
	word local[8] = { 0 }, a = 1, b = 2, c = 3, d = 4;

	for (word i = 0; i < n; i++) {
		switch (at[i] & 15) {
		case 0: a += b; break;
		case 1: b ^= c + i; break;
		case 2: c = far(a, b, c, d, i, n, a + b, at[i]); break;
		case 3: d += local[i & 7]; break;
		case 4: local[i & 7] += a; break;
		case 5: a = a * 3 + 1; break;
		case 6: sums[i & 3] += d; break;
		case 7: if (a & 1) return far(d, c, b, a, 1, 2, 3, 4) + local[1]; break;
		case 9: b = far(1, 2, 3, 4, 5, 6, i, b); break;
		case 11: { word t = a; a = b; b = t; } break;
		case 12: local[0] ^= b; break;
		default: sums[0]++;
		}
	}
	return a + b * 3 + c * 5 + d * 7 + local[0] + local[7];
}

static word __attribute__((noinline)) sized(word n, word which)
{
	unsigned char bytes[n + 16];

	for (word i = 0; i < n + 16; i++) bytes[i] = (unsigned char)(i * 37 + which);
	word sums[4] = { 0 }, sum = 0;
	for (word i = 0; i < n; i++)
		switch (bytes[i] % 9) {
		case 0: sum += bytes[i + 1]; break;
		case 1: sum -= i; break;
		case 2: sum = sum * 31 + bytes[i]; break;
		case 3: sum ^= kept(bytes, i & 31, sums); break;
		case 4: if (i > 3) sum += sums[i & 3]; break;
		case 5: sum += which; break;
		case 6: sum = far(sum, i, n, which, 1, 2, sum & 7, 3); break;
		}
	return sum + sums[2];
}

unsigned long work(unsigned long n)
{
	word sum = 0;

	for (word i = 0; i < n * 10; i++) sum = sum * 7 + sized(i % 97, i);
	return sum;
}
