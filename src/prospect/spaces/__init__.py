"""Side records → which process, thread name, address space and mapping stood at a time."""
