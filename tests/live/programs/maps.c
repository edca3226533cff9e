/* maps DIRECTORY: as nobody, maps a file with a path of almost 4 KiB for as long as it lives. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOBODY 65534

int main(int argc, char **argv)
{
	char name[251] = "";

	if (argc != 2 || chdir(argv[1]))
		return 2;
	memset(name, 'x', sizeof(name) - 1);
	for (int depth = 0; depth < 15; depth++)
		if (mkdir(name, 0755) || chdir(name))
			return 1;
	int file = open(name, O_RDWR | O_CREAT, 0644);
	if (file < 0 || ftruncate(file, 4096) || setgid(NOBODY) || setuid(NOBODY))
		return 1;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	puts("mapping");
	fflush(stdout);
	for (;;) {
		void *at = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);

		if (at == MAP_FAILED)
			return 1;
		munmap(at, 4096);
	}
}
