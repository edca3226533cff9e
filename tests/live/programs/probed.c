/* Functions with each kind of first instruction, called as often as the arguments say.
 *
 * probed CALLS THREADS CHILDREN: each thread of each process calls every kind CALLS times, and the
 * one that begins with a mov twice more through `twice`.
 */
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST 8

#define FUNCTION(name, code)                                                                       \
	__asm__(".text\n.type " #name ", @function\n" #name ": " code "\n.size " #name ", .-" #name "\n")
FUNCTION(with_nop, ".byte 0x0f,0x1f,0x44,0,0\n ret");
FUNCTION(with_push, "push %rbp\n pop %rbp\n ret");
FUNCTION(with_endbr, "endbr64\n ret");
FUNCTION(with_mov, "mov %edi, %eax\n ret");
FUNCTION(bad_first, "int3\n ret");
void with_nop(void), with_push(void), with_endbr(void), with_mov(void);

static long calls;

__attribute__((noinline)) static void twice(void)
{
	with_mov();
	with_mov();
	__asm__ volatile("");
}

static void *work(void *unused)
{
	for (long i = 0; i < calls; i++) {
		with_nop();
		with_push();
		with_endbr();
		with_mov();
		twice();
	}
	return unused;
}

static void run(int threads)
{
	pthread_t ids[MOST];
	for (int i = 0; i < threads; i++)
		pthread_create(&ids[i], 0, work, 0);
	for (int i = 0; i < threads; i++)
		pthread_join(ids[i], 0);
}

int main(int argc, char **argv)
{
	if (argc != 4 || atoi(argv[2]) > MOST || atoi(argv[3]) > MOST)
		return 2;
	calls = atol(argv[1]);
	for (int i = 0; i < atoi(argv[3]); i++)
		if (fork() == 0) {
			run(atoi(argv[2]));
			_exit(0);
		}
	run(atoi(argv[2]));
	while (wait(0) > 0)
		;
	return 0;
}
