"""What stands when recording begins: machine, processes, mappings, JIT files."""
