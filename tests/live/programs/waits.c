/* waits rest: threads that sleep, wait for a mutex, and read a pipe, each for a time that is known;
 * waits rivals: two threads that burn on one processor. Each says at its end: name, thread,
 * nanoseconds that it ran and that it lived, by the kernel's clocks. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "burn.h"

SPINNING(wait_spins)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t ready;
static int channel[2];
/* The threads that wait for another, once they are about to. */
static volatile int locking, reading;

static long long now(clockid_t clock)
{
	struct timespec time;
	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void rest(double seconds)
{
	struct timespec time = { (time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9) };
	nanosleep(&time, NULL);
}

/* Return once a thread of this process that is about to wait does. */
static void until_asleep(volatile int *thread)
{
	char state = 0, path[64];
	while (state != 'S') {
		rest(0.001);
		snprintf(path, sizeof path, "/proc/self/task/%d/stat", *thread);
		FILE *file = *thread ? fopen(path, "r") : NULL;
		if (file && fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
			state = 0;
		if (file)
			fclose(file);
	}
}

__attribute__((noinline)) void sleeps(void) { rest(0.3); }

__attribute__((noinline)) void holds(void)
{
	pthread_mutex_lock(&lock);
	pthread_barrier_wait(&ready);
	until_asleep(&locking);
	rest(0.25);
	pthread_mutex_unlock(&lock);
}

__attribute__((noinline)) void locks(void)
{
	pthread_barrier_wait(&ready);
	locking = gettid();
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
}

__attribute__((noinline)) void reads(void)
{
	char byte;
	reading = gettid();
	if (read(channel[0], &byte, 1) != 1)
		_exit(1);
}

__attribute__((noinline)) void burns(void) { burn_with(wait_spins, 0.3); }

static void rivals(void)
{
	cpu_set_t first;
	CPU_ZERO(&first);
	CPU_SET(0, &first);
	pthread_setaffinity_np(pthread_self(), sizeof first, &first);
	pthread_barrier_wait(&ready);
	burn_with(wait_spins, 0.4);
}

struct job {
	const char *name;
	void (*run)(void);
};

static void *work(void *argument)
{
	struct job *job = argument;
	long long begin = now(CLOCK_MONOTONIC);
	pthread_setname_np(pthread_self(), job->name);
	job->run();
	printf("%s %d %lld %lld\n", job->name, gettid(), now(CLOCK_THREAD_CPUTIME_ID),
	       now(CLOCK_MONOTONIC) - begin);
	fflush(stdout);
	return NULL;
}

int main(int argc, char **argv)
{
	static struct job resting[] = { { "sleeper", sleeps }, { "holder", holds },
					{ "locker", locks },   { "reader", reads },
					{ "burner", burns } };
	static struct job burning[] = { { "rival-0", rivals }, { "rival-1", rivals } };
	int is_resting = argc > 1 && !strcmp(argv[1], "rest");
	struct job *jobs = is_resting ? resting : burning;
	int count = is_resting ? 5 : 2;
	pthread_t thread[5];

	if (pipe(channel))
		return 1;
	pthread_barrier_init(&ready, NULL, 2);
	for (int i = 0; i < count; i++)
		pthread_create(&thread[i], NULL, work, &jobs[i]);
	if (is_resting)
		until_asleep(&reading);
	rest(0.2);
	if (write(channel[1], "x", 1) != 1)
		return 1;
	for (int i = 0; i < count; i++)
		pthread_join(thread[i], NULL);
	return 0;
}
