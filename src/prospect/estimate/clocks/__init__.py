"""The timers that took the samples: when each ran, and the grid of ticks that it kept."""
