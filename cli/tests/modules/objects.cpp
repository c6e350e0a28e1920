// Objects that are made before main, and go after it.
extern "C" int puts(const char *);

struct Numbers {
	int values[4];

	explicit Numbers(int first)
	{
		for (int i = 0; i < 4; i++)
			values[i] = first + i;
		puts("made");
	}

	~Numbers()
	{
		puts("gone");
	}
};

static Numbers low(1), high(100);

extern "C" int sum()
{
	static Numbers late(1000);

	return low.values[3] + high.values[3] + late.values[3];
}
