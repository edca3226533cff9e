/* forks COUNT MILLISECONDS [PROGRAM]: COUNT children, two at a time, each of which burns
 * MILLISECONDS, or executes PROGRAM MILLISECONDS behind vfork(2). */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "burn.h"

SPINNING(child_spins)

int main(int argc, char **argv)
{
	int running = 0;
	double seconds = atof(argv[2]) / 1000;
	for (volatile int left = atoi(argv[1]); left > 0; left--) {
		pid_t child = argc > 3 ? vfork() : fork();
		if (child == 0) {
			if (argc > 3) {
				execl(argv[3], argv[3], argv[2], (char *)0);
				_exit(127);
			}
			burn_with(child_spins, seconds);
			_exit(0);
		}
		if (child < 0)
			return 1;
		if (++running == 2) {
			wait(NULL);
			running--;
		}
	}
	while (running--)
		wait(NULL);
	return 0;
}
