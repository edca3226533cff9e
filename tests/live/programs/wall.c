/* wall MODE: a command that knows where its wall time goes. At its end it prints JSON: its wall
 * time, by function of those on the critical path how long they ran by the kernel's clock of each
 * thread, and by system call how long they were blocked by CLOCK_MONOTONIC. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SLOW, LINK, HELD, PING, PONG, BEFORE, AFTER, LEAF, STEP, WRITING, FUNCTIONS };
static const char *const names[FUNCTIONS] = {
	"slow_stage", "link_serially", "with_lock", "ping", "pong",
	"before", "after", "leaf", "step", "prepare_block",
};
enum { SLEPT, WROTE, BLOCKED };
static const char *const calls[BLOCKED] = { "clock_nanosleep", "write" };

static struct { long long ran[FUNCTIONS], blocked[BLOCKED], begun; } *truth;

static long long now(clockid_t clock)
{
	struct timespec time;
	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

/* Some 50 microseconds in user space between two looks at the clock. */
#define SPIN_NS(ns) \
	long long end = now(CLOCK_THREAD_CPUTIME_ID) + (ns); \
	volatile unsigned turns = 0; \
	do \
		for (int i = 0; i < 100000; i++) \
			turns++; \
	while (now(CLOCK_THREAD_CPUTIME_ID) < end);
#define SPINNER(name) \
	__attribute__((noinline)) static void name(long long ns) { SPIN_NS(ns) }

SPINNER(slow_stage) SPINNER(quick_stage) SPINNER(compile) SPINNER(link_serially)
SPINNER(with_lock) SPINNER(ping) SPINNER(pong) SPINNER(before) SPINNER(after)
SPINNER(leaf) SPINNER(step) SPINNER(prepare_block)

static void count(int function, void (*spin)(long long), long long ns)
{
	long long begin = now(CLOCK_THREAD_CPUTIME_ID);
	spin(ns);
	__atomic_add_fetch(&truth->ran[function], now(CLOCK_THREAD_CPUTIME_ID) - begin,
			   __ATOMIC_RELAXED);
}

#define MS 1000000LL

static void must(int ok)
{
	if (!ok) {
		perror("wall");
		_exit(1);
	}
}

/* Three stages; the second takes twenty times as long as the others. */
static void pipeline(void)
{
	int first[2], second[2];
	char byte = 0;
	must(!pipe(first) && !pipe(second));
	if (!fork()) {
		for (int i = 0; i < 60; i++) {
			quick_stage(MS / 4);
			must(write(first[1], &byte, 1) == 1);
		}
		_exit(0);
	}
	close(first[1]);
	if (!fork()) {
		while (read(first[0], &byte, 1) == 1) {
			count(SLOW, slow_stage, 5 * MS);
			must(write(second[1], &byte, 1) == 1);
		}
		_exit(0);
	}
	close(second[1]);
	while (read(second[0], &byte, 1) == 1)
		quick_stage(MS / 4);
	while (wait(NULL) > 0)
		;
}

/* Two compilers at once, then a linker alone. */
static void build(void)
{
	for (int i = 0; i < 2; i++)
		if (!fork()) {
			compile(60 * MS);
			_exit(0);
		}
	while (wait(NULL) > 0)
		;
	count(LINK, link_serially, 300 * MS);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *behind_lock(void *unused)
{
	(void)unused;
	for (int i = 0; i < 20; i++) {
		pthread_mutex_lock(&lock);
		count(HELD, with_lock, 5 * MS);
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

static void locked(void)
{
	pthread_t threads[3];
	for (int i = 0; i < 3; i++)
		must(!pthread_create(&threads[i], NULL, behind_lock, NULL));
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
}

static void rally(int in, int out)
{
	char byte = 0;
	for (int i = 0; i < 300; i++) {
		count(PING, ping, MS / 2);
		must(write(out, &byte, 1) == 1 && read(in, &byte, 1) == 1);
	}
}

static void returns(int in, int out)
{
	char byte = 0;
	while (read(in, &byte, 1) == 1) {
		count(PONG, pong, MS / 2);
		must(write(out, &byte, 1) == 1);
	}
	_exit(0);
}

static void over_pipes(void)
{
	int there[2], back[2];
	must(!pipe(there) && !pipe(back));
	if (!fork()) {
		close(there[1]);
		returns(there[0], back[1]);
	}
	rally(back[0], there[1]);
	close(there[1]);
	wait(NULL);
}

static void over_unix(void)
{
	int pair[2];
	must(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	if (!fork()) {
		close(pair[0]);
		returns(pair[1], pair[1]);
	}
	close(pair[1]);
	rally(pair[0], pair[0]);
	close(pair[0]);
	wait(NULL);
}

static void over_tcp(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t size = sizeof address;
	int server = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	must(!bind(server, (struct sockaddr *)&address, size) && !listen(server, 1));
	must(!getsockname(server, (struct sockaddr *)&address, &size));
	if (!fork()) {
		int asked = socket(AF_INET, SOCK_STREAM, 0);
		must(!connect(asked, (struct sockaddr *)&address, size));
		setsockopt(asked, IPPROTO_TCP, 1 /* TCP_NODELAY */, &one, sizeof one);
		returns(asked, asked);
	}
	int asking = accept(server, NULL, NULL);
	must(asking >= 0);
	setsockopt(asking, IPPROTO_TCP, 1, &one, sizeof one);
	rally(asking, asking);
	close(asking);
	wait(NULL);
}

static void sleeping(void)
{
	struct timespec time = { 0, 30 * MS };
	for (int i = 0; i < 5; i++) {
		count(BEFORE, before, 20 * MS);
		long long begin = now(CLOCK_MONOTONIC);
		clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
		truth->blocked[SLEPT] += now(CLOCK_MONOTONIC) - begin;
		count(AFTER, after, 20 * MS);
	}
}

static void synchronous(const char *directory)
{
	static char block[1 << 16];
	char path[4096];
	snprintf(path, sizeof path, "%s/wall-dsync", directory);
	int file = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_DSYNC, 0600);
	must(file >= 0);
	for (int i = 0; i < 60; i++) {
		count(WRITING, prepare_block, 2 * MS);
		long long begin = now(CLOCK_MONOTONIC), ran = now(CLOCK_THREAD_CPUTIME_ID);
		must(write(file, block, sizeof block) == sizeof block);
		ran = now(CLOCK_THREAD_CPUTIME_ID) - ran;
		truth->blocked[WROTE] += now(CLOCK_MONOTONIC) - begin - ran;
	}
	unlink(path);
}

/* Each process has one child, and works once that has ended. */
static void tree(int depth)
{
	if (depth && !fork()) {
		tree(depth - 1);
		_exit(0);
	}
	while (wait(NULL) > 0)
		;
	count(LEAF, leaf, 30 * MS);
}

static void chain(char **arguments, int left)
{
	char number[16], shared[16];
	count(STEP, step, 30 * MS);
	if (!left)
		return;
	snprintf(number, sizeof number, "%d", left - 1);
	snprintf(shared, sizeof shared, "%s", arguments[3]);
	execl("/proc/self/exe", arguments[0], "chain", number, shared, NULL);
	must(0);
}

static void print(long long end)
{
	const char *comma = "";
	printf("{\"wall_s\": %.9f, \"ran\": {", (end - truth->begun) / 1e9);
	for (int i = 0; i < FUNCTIONS; i++)
		if (truth->ran[i]) {
			printf("%s\"%s\": %.9f", comma, names[i], truth->ran[i] / 1e9);
			comma = ", ";
		}
	printf("}, \"blocked\": {");
	comma = "";
	for (int i = 0; i < BLOCKED; i++)
		if (truth->blocked[i]) {
			printf("%s\"%s\": %.9f", comma, calls[i], truth->blocked[i] / 1e9);
			comma = ", ";
		}
	printf("}}\n");
}

int main(int argc, char **arguments)
{
	const char *mode = argc > 1 ? arguments[1] : "";
	char number[16], *again[] = { arguments[0], "chain", "10", number, NULL };
	int shared = argc > 3 ? atoi(arguments[3]) : memfd_create("wall", 0);
	int is_first = argc <= 3 || strcmp(mode, "chain");
	must(shared >= 0 && (!is_first || !ftruncate(shared, 4096)));
	truth = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0);
	must(truth != MAP_FAILED);
	if (is_first)
		truth->begun = now(CLOCK_MONOTONIC);
	if (!strcmp(mode, "pipeline"))
		pipeline();
	else if (!strcmp(mode, "build"))
		build();
	else if (!strcmp(mode, "lock"))
		locked();
	else if (!strcmp(mode, "pipe"))
		over_pipes();
	else if (!strcmp(mode, "unix"))
		over_unix();
	else if (!strcmp(mode, "tcp"))
		over_tcp();
	else if (!strcmp(mode, "sleep"))
		sleeping();
	else if (!strcmp(mode, "dsync"))
		synchronous(argc > 2 ? arguments[2] : ".");
	else if (!strcmp(mode, "tree"))
		tree(8);
	else if (!strcmp(mode, "chain")) {
		snprintf(number, sizeof number, "%d", shared);
		chain(is_first ? again : arguments, is_first ? 10 : atoi(arguments[2]));
	} else if (!strcmp(mode, "spin"))
		count(BEFORE, before, 300 * MS);
	else
		return 2;
	print(now(CLOCK_MONOTONIC));
	return 0;
}
