/* Burn processor time: as many seconds of this thread's own as asked for. */
#include <stdlib.h>
#include <time.h>

static double thread_seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}

/* A function that spins, so that its name is in the profile and the clock's reading is not. */
#define SPINNING(name)                                                         \
	__attribute__((noinline)) unsigned name(unsigned rounds)               \
	{                                                                      \
		volatile unsigned sum = 0;                                     \
		for (unsigned i = 0; i < rounds; i++)                          \
			sum += i;                                              \
		return sum;                                                    \
	}

static inline void burn_with(unsigned (*spin)(unsigned), double seconds)
{
	double end = thread_seconds() + seconds;
	while (thread_seconds() < end)
		spin(20000);
}
