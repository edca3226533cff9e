/* Does what it is told, so many times: chores PAGES SLEEPS CALLS [CHILDREN].
 * Each child, one after the other, does the same without children. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

volatile unsigned long sum;

__attribute__((noinline)) void one_call(unsigned long n)
{
    sum += n;
}

static void work(long pages, long sleeps, long calls)
{
    long size = sysconf(_SC_PAGESIZE);
    if (pages) {
        volatile char *memory = mmap(0, pages * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        madvise((void *)memory, pages * size, MADV_NOHUGEPAGE);
        for (long i = 0; i < pages; i++)
            memory[i * size] = 1;
    }
    for (long i = 0; i < sleeps; i++) {
        struct timespec shortly = {0, 2000000};
        nanosleep(&shortly, 0);
    }
    for (long i = 0; i < calls; i++)
        one_call(i);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    long pages = atol(argv[1]), sleeps = atol(argv[2]), calls = atol(argv[3]);
    long children = argc > 4 ? atol(argv[4]) : 0;
    work(pages, sleeps, calls);
    for (long i = 0; i < children && i < 100; i++) {
        pid_t child = fork();
        if (child == 0) {
            work(pages, sleeps, calls);
            _exit(0);
        }
        if (child < 0)
            return 1;
        waitpid(child, 0, 0);
    }
    return 0;
}
