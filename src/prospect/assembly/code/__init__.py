"""Hit routines → their bytes, instructions, source lines and source text."""
