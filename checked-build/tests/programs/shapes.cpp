// SPDX-License-Identifier: GPL-2.0-only
// What a module can be of C++: templates, virtual functions, functions without names.
template <typename T>
struct List {
	T items[16];
	int count = 0;

	void push(T item)
	{
		items[count++] = item;
	}

	template <typename F>
	long fold(long from, F f) const
	{
		for (int i = 0; i < count; i++)
			from = f(from, items[i]);
		return from;
	}
};

struct Shape {
	virtual long area() const = 0;
};

struct Square : Shape {
	long side;

	explicit Square(long side) : side(side)
	{
	}

	long area() const override
	{
		return side * side;
	}
};

struct Disc : Shape {
	long radius;

	explicit Disc(long radius) : radius(radius)
	{
	}

	long area() const override
	{
		return 3 * radius * radius;
	}
};

struct Counted {
	long &n;

	explicit Counted(long &n) : n(n)
	{
		n++;
	}

	~Counted()
	{
		n += 10;
	}
};

extern "C" __attribute__((noinline)) long work(long n)
{
	Square square(n);
	Disc disc(2);
	List<const Shape *> shapes;
	long calls = 0;

	shapes.push(&square);
	shapes.push(&disc);
	{
		Counted counted(calls);
	}
	return shapes.fold(calls, [](long sum, const Shape *shape) {
		return sum + shape->area();
	});
}
