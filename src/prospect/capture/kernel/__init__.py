"""The kernel's interfaces as they are: system calls, rings, BPF, procfs, this process."""
