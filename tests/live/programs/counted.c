/* Recursion, a circle of two, static functions, and one that nobody calls; built with -pg. */
#include <stdio.h>
#include <stdlib.h>

static volatile unsigned long sink;

#define KEPT __attribute__((noinline, noclone))

static KEPT void burn(long n)
{
	for (long i = 0; i < n; i++)
		sink += (unsigned long)(i * i);
}

KEPT int fact(int n)
{
	burn(n * 20000L);
	return n < 2 ? 1 : n * fact(n - 1);
}

int odd(int n);

KEPT int even(int n)
{
	burn(30000);
	return n == 0 ? 1 : odd(n - 1);
}

KEPT int odd(int n)
{
	for (int i = 0; i < 20000; i++)
		sink += (unsigned long)i;
	return n == 0 ? 0 : even(n - 1);
}

static KEPT int helper(int n)
{
	burn(500000);
	return even(n) + fact(n / 2);
}

KEPT void never(void)
{
	burn(1);
}

static KEPT int by_pointer(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 300, numbers[64];
	unsigned sum = 0;

	for (int i = 0; i < rounds; i++) {
		sum += (unsigned)helper(i % 20);
		if (i % 3 == 0)
			burn(1000000);
		sum += (unsigned)even(3);
		for (int k = 0; k < 64; k++)
			numbers[k] = (k * 37 + i) % 64;
		qsort(numbers, 64, sizeof(numbers[0]), by_pointer);
	}
	if (rounds < 0)
		never();
	printf("%u\n", sum + (unsigned)numbers[0]);
	return 0;
}
