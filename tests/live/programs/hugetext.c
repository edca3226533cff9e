/*
 * hugetext MILLISECONDS [move]: puts a copy of its own code in the place of it, in anonymous memory,
 * as Node, MySQL (by mapping over it) and libhugetlbfs (by moving a mapping there) do, then burns.
 */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include "burn.h"

extern char __executable_start, etext;

__attribute__((aligned(4096))) static SPINNING(static_spins)
SPINNING(global_spins)

/* Whole pages of code in which this function itself is not. */
__attribute__((aligned(4096), section(".text.zz_last"))) int main(int argc, char **argv)
{
	double seconds = atof(argv[1]) / 1000;
	char *begin = (char *)static_spins;
	size_t size = 4096;
	int prot = PROT_READ | PROT_WRITE | PROT_EXEC, flags = MAP_PRIVATE | MAP_ANONYMOUS;
	char *copy = mmap(NULL, size, prot, flags, -1, 0);
	memcpy(copy, begin, size);
	if (argc > 2) {
		mprotect(copy, size, PROT_READ | PROT_EXEC);
		mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, begin);
	} else {
		mmap(begin, size, prot, flags | MAP_FIXED, -1, 0);
		memcpy(begin, copy, size);
		mprotect(begin, size, PROT_READ | PROT_EXEC);
	}
	burn_with(static_spins, seconds / 2);
	burn_with(global_spins, seconds / 2);
	return 0;
}
