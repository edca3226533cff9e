/* system MILLISECONDS: that long in user space, and that long in the kernel (reading zeros). */
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "burn.h"

SPINNING(user_spins)

static double system_seconds(void)
{
	struct rusage used;
	getrusage(RUSAGE_SELF, &used);
	return used.ru_stime.tv_sec + used.ru_stime.tv_usec * 1e-6;
}

int main(int argc, char **argv)
{
	static char zeros[1 << 18];
	double seconds = atof(argv[1]) / 1000;
	int zero = open("/dev/zero", O_RDONLY);
	burn_with(user_spins, seconds);
	for (double end = system_seconds() + seconds; system_seconds() < end;)
		if (read(zero, zeros, sizeof zeros) < 0)
			return 1;
	return argc < 2;
}
