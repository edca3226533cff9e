/* A program that looks like CPython 3.11 to whoever reads its memory, and whose frames are not what
 * they should be: MODE is loop (a frame that called itself), garbage (addresses of nothing), kernel
 * (addresses of the kernel) or long (texts that claim to be endless). It computes for a second. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

uint32_t Py_Version = 0x030b00f0;
char _PyRuntime[4096];
static char state[512], cframe[64], frame[128], code[256];
static char text[4096] __attribute__((aligned(16)));

void *PyGILState_GetThisThreadState(void) { return 0; }

static void put(char *at, uint64_t value) { memcpy(at, &value, 8); }

long _PyEval_EvalFrameDefault(double seconds)
{
	struct timespec now;
	volatile long sum = 0;
	do {
		for (int i = 0; i < 100000; i++)
			sum += i;
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
	} else if (strcmp(mode, "loop")) {
		put(frame + 32, nothing);
		put(frame + 48, nothing);
	}
	return _PyEval_EvalFrameDefault(1.0) == 7;
}
