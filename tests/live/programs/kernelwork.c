/* kernelwork WHAT MILLISECONDS: spends so much CPU time on one kind of kernel work.
 * getppid: an empty system call; read: one that copies; faults: touches new pages; forks: children
 * that end at once; spin: none at all. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGES 4096

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return time.tv_sec + time.tv_nsec * 1e-9;
}

static void work(const char *what, int zero, char *buffer)
{
	if (!strcmp(what, "getppid")) {
		for (int i = 0; i < 1000; i++)
			syscall(SYS_getppid);
	} else if (!strcmp(what, "read")) {
		if (read(zero, buffer, 1 << 20) != 1 << 20)
			exit(1);
	} else if (!strcmp(what, "faults")) {
		for (int i = 0; i < PAGES; i++)
			buffer[i * 4096] = 1;
		madvise(buffer, PAGES * 4096, MADV_DONTNEED);
	} else if (!strcmp(what, "forks")) {
		pid_t child = fork();
		if (!child)
			_exit(0);
		waitpid(child, NULL, 0);
	} else {
		for (volatile int i = 0; i < 100000; i++)
			;
	}
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	double end = now() + atof(argv[2]) / 1000;
	int zero = open("/dev/zero", O_RDONLY);
	char *buffer = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	madvise(buffer, PAGES * 4096, MADV_NOHUGEPAGE);
	while (now() < end)
		work(argv[1], zero, buffer);
	return 0;
}
