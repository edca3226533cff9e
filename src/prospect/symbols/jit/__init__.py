"""Names of code that a JIT made: map files and jitdump files."""
