"""Python frames: the BPF program that walks them, and the process that finds interpreters."""
