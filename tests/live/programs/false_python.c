/* A program that looks like CPython 3.11 to whoever reads its memory, and whose frames are not what
 * they should be: MODE is loop (a frame that called itself), garbage (addresses of nothing), kernel
 * (addresses of the kernel), long (texts that claim to be endless) or flood (other names and lines all
 * the time, as many as fit). It computes for a second, or as many as the second argument says. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

uint32_t Py_Version = 0x030b00f0;
char _PyRuntime[4096];
static char state[512], cframe[64], frame[128], code[256];
static char text[4096] __attribute__((aligned(16)));
static char lines[32768] __attribute__((aligned(16)));
static char frames[128][128] __attribute__((aligned(16))), codes[128][256] __attribute__((aligned(16)));
static int floods;

void *PyGILState_GetThisThreadState(void) { return 0; }

static void put(char *at, uint64_t value) { memcpy(at, &value, 8); }

long _PyEval_EvalFrameDefault(double seconds)
{
	struct timespec now;
	volatile long sum = 0;
	uint64_t made_up = 0;
	do {
		for (int i = 0; i < 100000; i++) {
			sum += i;
			if (floods && i % 64 == 0)
				put(codes[i / 64 % 128] + 72, ++made_up);
		}
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	} while (now.tv_sec + now.tv_nsec / 1e9 < seconds);
	return sum;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "loop";
	uint64_t nothing = !strcmp(mode, "kernel") ? 0xffff888000001000 : 0xdeadbeef000;
	pthread_key_t key;
	pthread_key_create(&key, 0);
	pthread_setspecific(key, state);
	uint32_t tss[2] = {1, key};
	memcpy(_PyRuntime + 592, tss, 8);
	put(state + 56, (uint64_t)cframe);
	put(cframe + 8, (uint64_t)frame);
	put(frame + 32, (uint64_t)code);
	put(frame + 48, (uint64_t)frame);
	put(frame + 56, (uint64_t)code + 190);
	put(code + 72, 7);
	for (int at = 112; at <= 136; at += 8)
		put(code + at, (uint64_t)text);
	put(text + 16, 3);
	put(text + 32, 1 << 2 | 1 << 6);
	memcpy(text + 48, "abc", 3);
	if (!strcmp(mode, "long")) {
		put(text + 16, UINT64_MAX);
		put(text + 32, 7 << 2);
	} else if (floods = !strcmp(mode, "flood")) {
		memset(lines, 1, sizeof lines);
		put(lines + 16, 24576);
		put(cframe + 8, (uint64_t)frames[0]);
		for (int row = 0; row < 128; row++) {
			memcpy(codes[row], code, sizeof code);
			put(codes[row] + 136, (uint64_t)lines);
			put(frames[row] + 32, (uint64_t)codes[row]);
			put(frames[row] + 48, row < 127 ? (uint64_t)frames[row + 1] : 0);
			put(frames[row] + 56, (uint64_t)codes[row] + 190);
		}
	} else if (strcmp(mode, "loop")) {
		put(frame + 32, nothing);
		put(frame + 48, nothing);
	}
	return _PyEval_EvalFrameDefault(argc > 2 ? atof(argv[2]) : 1.0) == 7;
}
