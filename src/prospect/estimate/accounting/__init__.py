"""The fate of every tick of the sampling clocks, and how late samples were."""
