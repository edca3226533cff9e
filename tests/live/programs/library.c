/* A library whose one function, NAME, burns; a static twin of it burns as long. */
#include "burn.h"

#define PASTE(a, b) a##b
#define STATIC_OF(name) PASTE(static_, name)

static SPINNING(STATIC_OF(NAME))

__attribute__((visibility("hidden"))) SPINNING(hidden_spins)

unsigned NAME(double seconds);
unsigned NAME(double seconds)
{
	burn_with(STATIC_OF(NAME), seconds / 2);
	burn_with(hidden_spins, seconds / 2);
	return 0;
}
