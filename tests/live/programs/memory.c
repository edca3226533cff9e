/* memory MILLISECONDS PROGRAM: copies PROGRAM to a memfd and executes that. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct stat status;
	int file = open(argv[2], O_RDONLY), copy = memfd_create("copied", 0);
	fstat(file, &status);
	sendfile(copy, file, NULL, status.st_size);
	char *arguments[] = {"copied", argv[1], NULL};
	fexecve(copy, arguments, (char *[]){NULL});
	return argc < 3;
}
