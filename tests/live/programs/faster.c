/* A command with three functions: it runs one, waits for a thread that runs another, and nobody waits
 * for the thread that runs the third. Each uses as many seconds of a CPU as the arguments say. */
#include "burn.h"
#include <pthread.h>

SPINNING(spin_own)
SPINNING(spin_waited)
SPINNING(spin_aside)

static void *waited(void *seconds)
{
	burn_with(spin_waited, *(double *)seconds);
	return NULL;
}

static void *aside(void *seconds)
{
	burn_with(spin_aside, *(double *)seconds);
	return NULL;
}

int main(int count, char **words)
{
	if (count < 4)
		return 2;
	double own_s = atof(words[1]), waited_s = atof(words[2]), aside_s = atof(words[3]);
	pthread_t alone, thread;
	pthread_create(&alone, NULL, aside, &aside_s);
	pthread_detach(alone);
	burn_with(spin_own, own_s / 2);
	pthread_create(&thread, NULL, waited, &waited_s);
	pthread_join(thread, NULL);
	burn_with(spin_own, own_s / 2);
	return 0;
}
