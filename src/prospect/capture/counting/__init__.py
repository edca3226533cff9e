"""Counts that the kernel makes while a command runs."""
