// Stacks of known shapes, each burning time in `burn`; ends after a given number
// of milliseconds of processor time. Calls: recursion, callbacks from qsort(), frames of varying size, realigned frames, exceptions,
// signal handlers, a tail call, clock_gettime() in the vdso, longjmp().
#include <alloca.h>
#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <sys/time.h>

#define ALONE extern "C" __attribute__((noinline, noclone))

static volatile unsigned long sink;
static jmp_buf back;

ALONE void burn(int rounds) {
    for (int i = 0; i < rounds; i++) sink += i * i;
}
ALONE int recurse(int depth) {
    if (depth == 0) {
        burn(30000);
        sink++;
        return 1;
    }
    int result = recurse(depth - 1);
    sink += result;
    return result + 1;
}
ALONE int compare(const void *a, const void *b) {
    burn(500);
    return *(const int *)a - *(const int *)b;
}
ALONE void sorts() {
    int values[64];
    for (int i = 0; i < 64; i++) values[i] = (i * 7919) % 64;
    qsort(values, 64, sizeof *values, compare);
    sink += values[3];
}
ALONE void varies(int bytes) {
    char *area = (char *)alloca(bytes);
    memset(area, 1, bytes);
    burn(20000);
    sink += area[bytes / 2];
}
ALONE __attribute__((force_align_arg_pointer)) void realigns() {
    alignas(64) char area[256];
    memset(area, sink & 3, sizeof area);
    burn(20000);
    sink += area[sink & 255];
}
ALONE void throws(int depth) {
    burn(2000);
    if (depth == 0) throw 5;
    throws(depth - 1);
    sink++;
}
ALONE void catches() {
    try {
        throws(10);
    } catch (int number) {
        sink += number;
    }
}
ALONE void jumps(int depth) {
    burn(2000);
    if (depth == 0) longjmp(back, 1);
    jumps(depth - 1);
    sink++;
}
ALONE void lands() {
    if (setjmp(back) == 0) jumps(10);
    sink++;
}
ALONE void tail(int rounds) {
    sink++;
    burn(rounds);
}
ALONE void clocks() {
    timespec now;
    for (int i = 0; i < 400; i++) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        sink += now.tv_nsec;
    }
}
ALONE void handler(int) {
    burn(200000);
    sink++;
}

int main(int count, char **words) {
    struct itimerval interval = {{0, 3000}, {0, 3000}};
    timespec begin, now;
    long ms = count > 1 ? atol(words[1]) : 1000;
    signal(SIGVTALRM, handler);
    setitimer(ITIMER_VIRTUAL, &interval, nullptr);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    do {
        recurse(20);
        sorts();
        varies(300 + (sink & 1023));
        realigns();
        catches();
        lands();
        tail(20000);
        sink++;
        clocks();
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    } while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < ms);
}
