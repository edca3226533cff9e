"""Java functions, read from the memory of HotSpot JVMs by what they export for debuggers."""
