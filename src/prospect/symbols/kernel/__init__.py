"""Names of the kernel's functions: kallsyms, System.map, a kernel image, BPF."""
