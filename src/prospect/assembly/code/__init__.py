"""Hit functions → their bytes, instructions, source lines and source text."""
