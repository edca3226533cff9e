// A server that asks a database, and a client: how long each part of the server's turns took.
//
// The server waits in select for a request, parses it for 2 ms, asks the database twice, and
// renders for 1 ms. The database spends 3 ms and sleeps 5 ms for each answer. All end after so many
// requests as the argument says; then the server prints sums in seconds, by the clocks of threads
// and, of sleeps and of each turn's length, by the monotonic clock.
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define APART __attribute__((noinline, noclone))

enum { PARSE, RENDER, LOOKUP, SLEPT, SUMS };
static double sum[SUMS];
static volatile unsigned long sink;

static double now(clockid_t clock)
{
    struct timespec at;
    clock_gettime(clock, &at);
    return at.tv_sec + at.tv_nsec * 1e-9;
}

static inline __attribute__((always_inline)) void burn(int which, double seconds)
{
    double begin = now(CLOCK_THREAD_CPUTIME_ID), end;
    do {
        for (int i = 0; i < 50000; i++)
            sink += i;
        end = now(CLOCK_THREAD_CPUTIME_ID);
    } while (end < begin + seconds);
    sum[which] += end - begin;
}

APART void parse(void) { burn(PARSE, 0.002); }
APART void render(void) { burn(RENDER, 0.001); }
APART void lookup(void) { burn(LOOKUP, 0.003); }

static void sent(int link, char byte)
{
    if (write(link, &byte, 1) != 1)
        exit(1);
}

static int received(int link)
{
    char byte;
    return read(link, &byte, 1) == 1;
}

APART int wait_for_work(int link)
{
    fd_set ready;
    FD_ZERO(&ready);
    FD_SET(link, &ready);
    select(link + 1, &ready, NULL, NULL, NULL);
    return received(link);
}

APART void read_disk(void)
{
    double begin = now(CLOCK_MONOTONIC);
    struct timespec pause = {0, 5000000};
    nanosleep(&pause, NULL);
    sum[SLEPT] += now(CLOCK_MONOTONIC) - begin;
}

APART void scan(void)
{
    lookup();
    read_disk();
    sink++;
}

APART void find(int link)
{
    scan();
    sent(link, 'a');
    sink++;
}

APART void answer(int link)
{
    struct pollfd wanted = {link, POLLIN, 0};
    poll(&wanted, 1, -1);
    received(link);
}

APART void ask(int link)
{
    sent(link, 'q');
    answer(link);
    sink++;
}

APART void view(int link)
{
    parse();
    ask(link);
    ask(link);
    render();
    sink++;
}

APART double handle(int front, int link)
{
    double begin = now(CLOCK_MONOTONIC), length;
    view(link);
    length = now(CLOCK_MONOTONIC) - begin;
    sent(front, 'p');
    return length;
}

int main(int argc, char **argv)
{
    int link[2], front[2], report[2], requests = argc > 1 ? atoi(argv[1]) : 100;
    double turns = 0;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, link) || socketpair(AF_UNIX, SOCK_STREAM, 0, front)
        || pipe(report))
        return 1;
    if (!fork()) {
        close(link[0]);
        while (wait_for_work(link[1]))
            find(link[1]);
        return write(report[1], sum, sizeof sum) != sizeof sum;
    }
    if (!fork()) {
        struct timespec pause = {0, 4000000};
        close(link[0]);
        for (int i = 0; i < requests; i++) {
            sent(front[1], 'r');
            received(front[1]);
            nanosleep(&pause, NULL);
        }
        return 0;
    }
    close(link[1]);
    for (int i = 0; i < requests && wait_for_work(front[0]); i++)
        turns += handle(front[0], link[0]);
    close(link[0]);
    double of_database[SUMS];
    if (read(report[0], of_database, sizeof of_database) != sizeof of_database)
        return 1;
    while (wait(NULL) > 0)
        ;
    printf("{\"turns\": %f, \"parse\": %f, \"render\": %f, \"lookup\": %f, \"slept\": %f}\n", turns,
           sum[PARSE], sum[RENDER], of_database[LOOKUP], of_database[SLEPT]);
    return 0;
}
