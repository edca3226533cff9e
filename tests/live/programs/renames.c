/* Threads that give themselves new names as fast as they can. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

static void *rename_for_ever(void *first)
{
	unsigned long number = (unsigned long)first << 32;
	char name[16];

	for (;;) {
		snprintf(name, sizeof(name), "%lx", number++);
		prctl(PR_SET_NAME, name);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 2;

	for (long first = 1; first <= threads; first++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, rename_for_ever, (void *)first))
			return 1;
	}
	pthread_exit(NULL);
}
