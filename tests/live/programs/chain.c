/* A call chain that is known: main, outer, middle, inner, descend as often as argv[1] says, leaf.
   Every other time descend is left out. argv[2]: for how many rounds. */
#include <stdlib.h>

#define KEPT __attribute__((noinline, noclone))

static volatile unsigned long result;

KEPT static void nothing(void) { __asm__ volatile(""); }

/* It calls, so that it has a frame where frames are kept. */
KEPT static unsigned long leaf(unsigned long n)
{
	unsigned long sum = n;
	for (unsigned long i = 0; i < 200000; i++)
		sum = sum * 6364136223846793005UL + i;
	nothing();
	return sum;
}

/* What is added after each call keeps it from becoming a jump. */
KEPT static unsigned long descend(unsigned long depth)
{
	volatile unsigned long room[4] = { depth };
	unsigned long found = depth > 1 ? descend(depth - 1) : leaf(depth);
	return found + room[depth & 3];
}

KEPT static unsigned long inner(unsigned long depth)
{
	return (depth ? descend(depth) : leaf(depth)) + 1;
}

KEPT static unsigned long middle(unsigned long depth) { return inner(depth) + 2; }

KEPT static unsigned long outer(unsigned long depth) { return middle(depth) + 3; }

int main(int argc, char **argv)
{
	unsigned long depth = argc > 1 ? strtoul(argv[1], 0, 10) : 0;
	unsigned long rounds = argc > 2 ? strtoul(argv[2], 0, 10) : 4000;
	for (unsigned long i = 0; i < rounds; i++)
		result += outer(i & 1 ? depth : 0);
	return 0;
}
