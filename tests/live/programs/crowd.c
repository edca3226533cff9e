/* crowd THREADS: so many threads that do nothing, on stacks of 16 KB; says how many there are. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *idle(void *argument)
{
	pause();
	return argument;
}

int main(int argc, char **argv)
{
	long number = 0, wanted = argc > 1 ? atol(argv[1]) : 0;
	pthread_attr_t small;
	pthread_t thread;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 16 << 10);
	pthread_attr_setguardsize(&small, 0);
	while (number < wanted && !pthread_create(&thread, &small, idle, NULL))
		number++;
	printf("%ld\n", number);
	fflush(stdout);
	pause();
	return 0;
}
