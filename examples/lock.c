/* Four threads check sums and add them up under one lock, which `update` holds while it formats a line; with
   -DFIXED it formats before it takes the lock. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 4, ROUNDS = 400 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char last[64];
static unsigned long total;

__attribute__((noinline)) static unsigned long checksum(unsigned long seed, int rounds) {
    for (int n = 0; n < rounds; n++) seed = seed * 6364136223846793005UL + (seed >> 33);
    return seed;
}

__attribute__((noinline)) static void format_line(char *line, size_t size, unsigned long sum) {
    snprintf(line, size, "%lx %lx", sum, checksum(sum, 600000));
}

__attribute__((noinline)) static void update(unsigned long sum) {
    char line[64];
#ifdef FIXED
    format_line(line, sizeof line, sum);
#endif
    pthread_mutex_lock(&lock);
#ifndef FIXED
    format_line(line, sizeof line, sum);
#endif
    memcpy(last, line, sizeof last);
    total += sum;
    pthread_mutex_unlock(&lock);
}

static void *work(void *seed) {
    unsigned long sum = (unsigned long)seed;
    for (int n = 0; n < ROUNDS; n++) update(sum = checksum(sum, 20000));
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    for (long n = 0; n < THREADS; n++) pthread_create(&threads[n], NULL, work, (void *)(n + 1));
    for (int n = 0; n < THREADS; n++) pthread_join(threads[n], NULL);
    printf("%lu %s\n", total, last);
    return 0;
}
