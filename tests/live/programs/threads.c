/* threads MILLISECONDS: four threads with names of their own; the n-th burns n times that long. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>

#include "burn.h"

SPINNING(thread_spins)

static double unit;

static void *work(void *argument)
{
	long number = (long)argument;
	char name[16];
	snprintf(name, sizeof name, "worker-%ld", number);
	pthread_setname_np(pthread_self(), name);
	burn_with(thread_spins, unit * number);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread[4];
	unit = atof(argv[1]) / 1000;
	for (long i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, work, (void *)(i + 1));
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	return argc < 2;
}
