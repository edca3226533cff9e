/* loads MILLISECONDS LIBRARY...: opens each library in turn, the n-th (lib<name>.so, function
 * <name>) burns n times MILLISECONDS, and closes it, so that all of them stand at one address.
 * Prints the address that each function had. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "burn.h"

int main(int argc, char **argv)
{
	double unit = atof(argv[1]) / 1000;
	for (int i = 2; i < argc; i++) {
		char name[64] = "";
		const char *base = strrchr(argv[i], '/') + strlen("/lib");
		sscanf(base, "%63[a-z]", name);
		void *library = dlopen(argv[i], RTLD_NOW);
		unsigned (*spins)(double) = library ? dlsym(library, name) : NULL;
		if (!spins)
			return 1;
		printf("%s %p\n", name, (void *)spins);
		spins(unit * (i - 1));
		dlclose(library);
	}
	return 0;
}
