"""Side records → which process, thread name, address space and mapping there was at a time."""
