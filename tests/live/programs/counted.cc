// Methods, templates, overloads, a circle of three and a static object; built with -pg.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#define KEPT __attribute__((noinline, noclone))

namespace shapes {

static volatile unsigned long sink;

template <typename T> KEPT T work(T n)
{
	for (T i = 0; i < n; i++)
		sink += static_cast<unsigned long>(i);
	return n;
}

class Shape {
public:
	KEPT virtual long area(int depth) { return work(20000L) + depth; }
	virtual ~Shape() = default;
};

class Square : public Shape {
public:
	KEPT long area(int depth) override
	{
		work(30000);
		return depth > 0 ? around(depth - 1) : Shape::area(depth);
	}
	KEPT long around(int depth) { return back(depth) + work(5000L); }
	KEPT long back(int depth) { return area(depth); }
};

KEPT static std::string name(int n) { return std::string(static_cast<size_t>(n % 40), 'x'); }
KEPT static std::string name(const std::string &s, int n) { return s + name(n); }

} // namespace shapes

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 3000;
	shapes::Square square;
	shapes::Shape plain, *both[] = {&square, &plain};
	std::vector<std::string> names;
	long sum = 0;

	for (int i = 0; i < rounds; i++) {
		sum += both[i & 1]->area(i % 7);
		names.push_back(shapes::name(shapes::name(i), i));
	}
	printf("%ld %zu\n", sum, names.size());
	return 0;
}
