/* calltree N: N rounds of calls of known depth, for tests of call stacks.
 *
 * main -> outer -> recurse (9 calls deep) -> inner (computes)
 * main -> sorts -> qsort (the C library) -> compares (computes)
 * main -> reads -> read (the kernel)
 * main -> ping -> pong -> ping -> ... -> inner, six calls deep
 *
 * What follows each call keeps the compiler from making a jump of it.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define CALLED __attribute__((noinline, noclone))

volatile long sink;
static int zero;

CALLED void inner(long times)
{
	for (long i = 0; i < times; i++)
		sink += i;
}

CALLED int recurse(int left)
{
	if (left == 0) {
		inner(100000);
		sink++;
		return 1;
	}
	int deeper = recurse(left - 1);
	sink++;
	return deeper + 1;
}

CALLED void outer(void)
{
	recurse(8);
	sink++;
}

CALLED int compares(const void *a, const void *b)
{
	for (int i = 0; i < 200; i++)
		sink += i;
	return *(const int *)a - *(const int *)b;
}

CALLED void sorts(void)
{
	int values[64];
	for (int i = 0; i < 64; i++)
		values[i] = (i * 37) % 64;
	qsort(values, 64, sizeof *values, compares);
	sink += values[0];
}

CALLED void reads(void)
{
	static char buffer[1 << 18];
	for (int i = 0; i < 4; i++)
		sink += read(zero, buffer, sizeof buffer);
}

CALLED int pong(int left);

CALLED int ping(int left)
{
	if (left == 0) {
		inner(50000);
		sink++;
		return 0;
	}
	int deeper = pong(left - 1);
	sink++;
	return deeper;
}

CALLED int pong(int left)
{
	int deeper = ping(left - 1);
	sink++;
	return deeper;
}

int main(int count, char **words)
{
	zero = open("/dev/zero", O_RDONLY);
	for (long i = 0, rounds = count > 1 ? atol(words[1]) : 100; i < rounds; i++) {
		outer();
		sorts();
		reads();
		ping(6);
	}
	return 0;
}
