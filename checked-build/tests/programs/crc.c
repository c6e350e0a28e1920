// A table made at run time, then bytes.
static unsigned table[256];
static unsigned char bytes[65536];

unsigned long work(unsigned long n)
{
	unsigned crc = ~0u;
	for (unsigned i = 0; i < 256; i++) {
		unsigned c = i;
		for (int k = 0; k < 8; k++) c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
		table[i] = c;
	}
	for (unsigned i = 0; i < sizeof(bytes); i++) bytes[i] = i * 7 + (i >> 8);
	while (n--)
		for (unsigned i = 0; i < sizeof(bytes); i++)
			crc = table[(crc ^ bytes[i]) & 255] ^ crc >> 8;
	return crc;
}
