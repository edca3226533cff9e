"""Frames of runtimes: the BPF programs that walk them, and the process that finds runtimes."""
