"""Names of the kernel's routines: kallsyms, System.map, a kernel image, BPF."""
