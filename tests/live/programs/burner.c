/* burner MILLISECONDS: burns them in its own code, half in a static function. */
#include "burn.h"

static SPINNING(static_spins)
SPINNING(global_spins)

int main(int argc, char **argv)
{
	double seconds = atof(argv[1]) / 1000;
	burn_with(static_spins, seconds / 2);
	burn_with(global_spins, seconds / 2);
	return argc < 2;
}
