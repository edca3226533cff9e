"""Hits by instruction, source line and block of the code that was chosen, each with its ±."""
