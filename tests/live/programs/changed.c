/* Two routines of known processor time: `steady` works STEADY turns, `changed` REPS turns. What
   each took, in seconds, is appended to the file that the first argument names. */
#include <stdio.h>
#include <time.h>

#ifndef REPS
#define REPS 100
#endif
#ifndef STEADY
#define STEADY 50
#endif

static volatile unsigned long sink;

static double used(void) {
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

__attribute__((noinline)) void steady(int turns) {
	unsigned long x = 88172645463325252UL;
	for (long i = 0; i < turns * 1000000L; i++) { x ^= x << 13; x ^= x >> 7; x ^= x << 17; }
	sink += x;
}

__attribute__((noinline)) void changed(int turns) {
	unsigned long x = 1;
	for (long i = 0; i < turns * 1000000L; i++) { x = x * 6364136223846793005UL + 1; x ^= x >> 9; }
	sink += x;
}

int main(int argc, char **argv) {
	double begin = used();
	steady(STEADY);
	double middle = used();
	changed(REPS);
	double end = used();
	FILE *out = fopen(argv[argc - 1], "a");
	fprintf(out, "%.9f %.9f\n", middle - begin, end - middle);
	fclose(out);
	return 0;
}
