/* A server whose thread waits in poll() for requests, and within each for an answer of another
 * thread. Prints how long the calls of each kind took, in nanoseconds. */

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define TURNS 20
#define NAP_NS 8000000

static int requests[2], questions[2];
static long long answer_ns, request_ns;

static long long now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000LL + at.tv_nsec;
}

static void nap(void)
{
    struct timespec length = {0, NAP_NS};
    nanosleep(&length, NULL);
}

__attribute__((noinline)) static long long until_readable(int fd)
{
    struct pollfd one = {fd, POLLIN, 0};
    long long began = now();
    poll(&one, 1, -1);
    char byte;
    long long ended = now();
    if (read(fd, &byte, 1) != 1) perror("read");
    return ended - began;
}

__attribute__((noinline)) static long long receive(int fd)
{
    long long took = until_readable(fd);
    __asm__ volatile("" : "+r"(took));
    return took;
}

__attribute__((noinline)) static long long query(void)
{
    if (write(questions[0], "q", 1) != 1) perror("write");
    long long took = receive(questions[0]);
    __asm__ volatile("" : "+r"(took));
    return took;
}

__attribute__((noinline)) static long long handle(void)
{
    long long took = query();
    __asm__ volatile("" : "+r"(took));
    return took;
}

static void *serve(void *unused)
{
    pthread_setname_np(pthread_self(), "server");
    for (int turn = 0; turn < TURNS; turn++) {
        request_ns += until_readable(requests[1]);
        answer_ns += handle();
    }
    return unused;
}

static void *answer(void *unused)
{
    char byte;
    while (read(questions[1], &byte, 1) == 1) {
        nap();
        if (write(questions[1], "a", 1) != 1) break;
    }
    return unused;
}

int main(void)
{
    pthread_t server, other;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, requests) || socketpair(AF_UNIX, SOCK_STREAM, 0, questions))
        return 1;
    pthread_create(&other, NULL, answer, NULL);
    pthread_create(&server, NULL, serve, NULL);
    for (int turn = 0; turn < TURNS; turn++) {
        nap();
        nap();
        nap();
        if (write(requests[0], "r", 1) != 1) return 1;
    }
    pthread_join(server, NULL);
    close(questions[0]);
    pthread_join(other, NULL);
    printf("%lld %lld\n", request_ns, answer_ns);
    return 0;
}
