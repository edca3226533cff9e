/* Work that calls functions some ten thousand times a second, at a rate that changes.
 *
 * rates STEPS: in every step `leaf` is called once, ten times in every fourth hundred of steps.
 * Built with frame pointers both functions begin with a push, whose probe is cheap everywhere.
 */
#include <stdlib.h>

volatile unsigned long sink;

__attribute__((noinline)) void leaf(int n)
{
	for (int i = 0; i < n; i++)
		sink += i;
}

__attribute__((noinline)) void step(int more)
{
	leaf(400000);
	for (int i = 0; i < more; i++)
		leaf(40000);
	sink++;
}

int main(int argc, char **argv)
{
	int steps = atoi(argv[1]);
	for (int i = 0; i < steps; i++)
		step(i / 100 % 4 == 3 ? 9 : 0);
	return 0;
}
