/* calls HOW [N]: system calls by raw numbers, so many that a test can compare.
 *
 * plain N     N getppid, 2 N read of a byte, 3 N write of a byte, 5 nanosleep of 20 ms
 * threads N   two threads at once, N getppid each
 * forks N     N children one after the other, 3 getppid each
 * reuse       children with one and the same pid: 3 getppid, then 7
 * killed      a thread that reads from an empty pipe as the process ends
 * odd         numbers without a call: 400 twice, then 3000, a million and minus one billion
 * leader      a thread that is not the first one executes this program: "plain 10"
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long count;
static char **arguments;

static void ask(long times)
{
	while (times-- > 0)
		syscall(SYS_getppid);
}

static void *asks(void *unused)
{
	ask(count);
	return unused;
}

static void *blocks(void *pipe_end)
{
	char byte;
	syscall(SYS_read, *(int *)pipe_end, &byte, 1);
	return NULL;
}

static void *executes(void *unused)
{
	execl(arguments[0], arguments[0], "plain", "10", (char *)0);
	return unused;
}

static void plain(void)
{
	struct timespec pause = {0, 20000000};
	char byte = 0;
	int zero = open("/dev/zero", O_RDONLY), null = open("/dev/null", O_WRONLY);
	ask(count);
	for (long i = 0; i < 2 * count; i++)
		syscall(SYS_read, zero, &byte, 1);
	for (long i = 0; i < 3 * count; i++)
		syscall(SYS_write, null, &byte, 1);
	for (int i = 0; i < 5; i++)
		syscall(SYS_nanosleep, &pause, NULL);
}

static void threads(void)
{
	pthread_t one, two;
	pthread_create(&one, NULL, asks, NULL);
	pthread_create(&two, NULL, asks, NULL);
	pthread_join(one, NULL);
	pthread_join(two, NULL);
}

static pid_t child_that_asks(long times)
{
	pid_t child = fork();
	if (child == 0) {
		ask(times);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	return child;
}

/* Others may take the pid in between: then once more. */
static void reuse(void)
{
	pid_t first = child_that_asks(3), second = 0;
	char text[16];
	while (second != first) {
		int last = open("/proc/sys/kernel/ns_last_pid", O_WRONLY);
		snprintf(text, sizeof text, "%d", first - 1);
		if (write(last, text, strlen(text)) < 0)
			exit(1);
		close(last);
		second = fork();
		if (second == 0) {
			if (getpid() == first)
				ask(7);
			_exit(0);
		}
		waitpid(second, NULL, 0);
	}
}

static void killed(void)
{
	int ends[2];
	pthread_t thread;
	struct timespec pause = {0, 100000000};
	if (pipe(ends))
		exit(1);
	pthread_create(&thread, NULL, blocks, &ends[0]);
	nanosleep(&pause, NULL);
	_exit(0);
}

static void odd(void)
{
	syscall(400);
	syscall(400);
	syscall(3000);
	syscall(1000000);
	syscall(-1000000000L);
}

static void leader(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, executes, NULL);
	pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	count = argc > 2 ? atol(argv[2]) : 0;
	arguments = argv;
	if (!strcmp(how, "plain"))
		plain();
	else if (!strcmp(how, "threads"))
		threads();
	else if (!strcmp(how, "forks"))
		while (count-- > 0)
			child_that_asks(3);
	else if (!strcmp(how, "reuse"))
		reuse();
	else if (!strcmp(how, "killed"))
		killed();
	else if (!strcmp(how, "odd"))
		odd();
	else if (!strcmp(how, "leader"))
		leader();
	else
		return 2;
	return 0;
}
