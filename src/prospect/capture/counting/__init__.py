"""What is counted in the kernel while a command runs."""
