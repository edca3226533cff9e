/* A small JIT of x86-64 whose every hit has a known name.
 *
 * jit dump DIRECTORY SECONDS   logs its code to DIRECTORY/jit-PID.dump
 * jit map SECONDS              logs its code to /tmp/perf-PID.map
 *
 * It runs one function after the other, each for SECONDS, and writes for each a line
 * "NAME BEGIN END", both times of CLOCK_MONOTONIC in nanoseconds:
 *   first    at the start of a page
 *   second   written over it
 *   second   moved to another page (dump only)
 *   third    written over the start of where both were, with line numbers
 * The page is writable or executable, never both, as hardened runtimes have it.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096
#define CODE_BYTES 64

/* mov $100000, %ecx; dec %ecx; jnz back; ret; padding */
static const uint8_t CODE[] = {0xb9, 0xa0, 0x86, 0x01, 0x00, 0xff, 0xc9, 0x75, 0xfc, 0xc3};

static FILE *dump, *map;
static uint64_t next_index;

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static void u32(uint32_t value) { fwrite(&value, sizeof value, 1, dump); }
static void u64(uint64_t value) { fwrite(&value, sizeof value, 1, dump); }

static void prefix(uint32_t kind, uint32_t bytes) {
    u32(kind);
    u32(bytes);
    u64(now_ns());
}

static void open_dump(const char *directory) {
    char path[4096];
    snprintf(path, sizeof path, "%s/jit-%d.dump", directory, getpid());
    dump = fopen(path, "w+");
    if (!dump) exit(2);
    u32(0x4A695444), u32(1), u32(40), u32(62), u32(0), u32(getpid()), u64(now_ns()), u64(0);
    fflush(dump);
    /* By this mapping readers find the file. */
    if (mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(dump), 0) == MAP_FAILED) exit(3);
}

static void log_lines(uint8_t *at) {
    static const char file[] = "made.jit", same[] = "\xff";
    prefix(2, 32 + 2 * 16 + sizeof file + sizeof same);
    u64((uintptr_t)at), u64(2);
    u64((uintptr_t)at), u32(7), u32(0), fwrite(file, sizeof file, 1, dump);
    u64((uintptr_t)at + 5), u32(9), u32(0), fwrite(same, sizeof same, 1, dump);
}

static void write_code(uint8_t *page, uint8_t *at, const char *name) {
    mprotect(page, PAGE, PROT_READ | PROT_WRITE);
    memset(at, 0xcc, CODE_BYTES);
    memcpy(at, CODE, sizeof CODE);
    if (dump) {
        prefix(0, 56 + strlen(name) + 1 + CODE_BYTES);
        u32(getpid()), u32(getpid()), u64((uintptr_t)at), u64((uintptr_t)at);
        u64(CODE_BYTES), u64(next_index++);
        fwrite(name, strlen(name) + 1, 1, dump);
        fwrite(at, CODE_BYTES, 1, dump);
        fflush(dump);
    }
    if (map) {
        fprintf(map, "%llx %x %s\n", (unsigned long long)(uintptr_t)at, CODE_BYTES, name);
        fflush(map);
    }
    mprotect(page, PAGE, PROT_READ | PROT_EXEC);
}

static void move_code(uint8_t *page, uint8_t *to, uint8_t *from) {
    mprotect(page, PAGE, PROT_READ | PROT_WRITE);
    memcpy(to, from, CODE_BYTES);
    prefix(1, 64);
    u32(getpid()), u32(getpid()), u64((uintptr_t)to), u64((uintptr_t)from), u64((uintptr_t)to);
    u64(CODE_BYTES), u64(next_index - 1);
    fflush(dump);
    mprotect(page, PAGE, PROT_READ | PROT_EXEC);
}

static void run(uint8_t *at, const char *name, double seconds) {
    void (*function)(void) = (void (*)(void))(uintptr_t)at;
    uint64_t begin = now_ns();
    do function();
    while (now_ns() - begin < seconds * 1e9);
    printf("%s %llu %llu\n", name, (unsigned long long)begin, (unsigned long long)now_ns());
    fflush(stdout);
}

int main(int count, char **words) {
    if (count < 3) return 1;
    int to_dump = !strcmp(words[1], "dump");
    double seconds = atof(words[to_dump ? 3 : 2]);
    if (to_dump) {
        open_dump(words[2]);
    } else {
        char path[64];
        snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
        map = fopen(path, "w");
        if (!map) return 2;
    }
    uint8_t *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint8_t *other = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    write_code(page, page, "first");
    run(page, "first", seconds);
    write_code(page, page, "second");
    run(page, "second", seconds);
    if (dump) {
        move_code(other, other + 128, page);
        run(other + 128, "second", seconds);
        log_lines(page + 16);
    }
    write_code(page, page + 16, "third");
    run(page + 16, "third", seconds);
    return 0;
}
