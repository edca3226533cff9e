"""The result of every tick of the sampling clocks, and delays of samples."""
