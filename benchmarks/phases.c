/* A program that knows how long it was where: two routines in turn, and the time in each, which
 * leaves out what other threads took from it.
 *
 *   phases random SECONDS A_US B_US SEED FILE    stays of random length, these on average
 *   phases locked SECONDS RATE_HZ SHARE SEED FILE    SHARE of each period in phase_a
 *
 * It writes to FILE the seconds in phase_a, in phase_b, and for how many it stood still for more
 * than 3 ms though no other thread ran: the host of a virtual machine took them.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static volatile long work;
static double counts_a_second;
/* Between two looks at the counter, in counts: when something else must have run, and when ticks of
 * the profiler's clocks may have been lost. */
static uint64_t something_else, too_long;
static uint64_t elsewhere, lost;

static inline uint64_t counter(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t value;
	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
	return value;
#else
#error "no counter that user space can read is known for this processor"
#endif
}

static inline __attribute__((always_inline)) void work_until(uint64_t until)
{
	uint64_t now = counter(), last;
	do {
		work++;
		last = now;
		now = counter();
		if (now - last > something_else) {
			elsewhere += now - last;
			lost += now - last > too_long ? now - last : 0;
		}
	} while (now < until);
}

__attribute__((noinline)) void phase_a(uint64_t until)
{
	work_until(until);
}

__attribute__((noinline)) void phase_b(uint64_t until)
{
	work_until(until);
}

static double seconds(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}

static void calibrate(void)
{
	double begin_s = seconds(CLOCK_MONOTONIC), end_s;
	uint64_t begin = counter();
	do
		end_s = seconds(CLOCK_MONOTONIC);
	while (end_s < begin_s + 0.05);
	counts_a_second = (counter() - begin) / (end_s - begin_s);
	something_else = (uint64_t)(0.0002 * counts_a_second);
	too_long = (uint64_t)(0.003 * counts_a_second);
}

static long switches(void)
{
	struct rusage usage;
	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nvcsw + usage.ru_nivcsw;
}

/* Returns the seconds in one stay; adds to *stolen_s what no thread of this machine can have had. */
static double stay(void (*routine)(uint64_t), uint64_t until, double *stolen_s)
{
	long switches_before = switches();
	double own_before_s = seconds(CLOCK_THREAD_CPUTIME_ID);
	elsewhere = lost = 0;
	uint64_t begin = counter();
	routine(until);
	uint64_t passed = counter() - begin;
	double own_s = seconds(CLOCK_THREAD_CPUTIME_ID) - own_before_s;
	if (switches() == switches_before) {
		*stolen_s += lost / counts_a_second;
		return passed / counts_a_second;
	}
	/* Other threads ran, and the scheduler counts what was stolen meanwhile for nobody. */
	double here_s = (passed - elsewhere) / counts_a_second;
	*stolen_s += fabs(here_s - own_s) > 0.003 ? fabs(here_s - own_s) : 0;
	return here_s;
}

static double exponential(double mean)
{
	return -mean * log(1.0 - drand48());
}

int main(int argc, char **argv)
{
	if (argc != 7)
		return 2;
	int locked = !strcmp(argv[1], "locked");
	double length_s = atof(argv[2]), first = atof(argv[3]), second = atof(argv[4]);
	srand48(atol(argv[5]));
	calibrate();
	double in_a = 0, in_b = 0, stolen = 0, rate = counts_a_second;
	uint64_t begin = counter(), at = begin, end = begin + (uint64_t)(length_s * rate);
	for (uint64_t turn = 0; at < end; turn++) {
		uint64_t middle, next;
		if (locked) {
			/* On the grid from the beginning on, so that nothing adds up. */
			middle = begin + (uint64_t)((turn + second) / first * rate);
			next = begin + (uint64_t)((turn + 1) / first * rate);
		} else {
			middle = at + (uint64_t)(exponential(first) * 1e-6 * rate);
			next = middle + (uint64_t)(exponential(second) * 1e-6 * rate);
		}
		middle = middle < end ? middle : end;
		next = next < end ? next : end;
		in_a += stay(phase_a, middle, &stolen);
		in_b += stay(phase_b, next, &stolen);
		at = locked ? next : counter();
	}
	FILE *file = fopen(argv[6], "w");
	if (!file)
		return 1;
	fprintf(file, "%.9f %.9f %.9f\n", in_a, in_b, stolen);
	return fclose(file) != 0;
}
