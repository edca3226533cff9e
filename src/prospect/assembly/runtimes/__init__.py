"""Samples with Python frames: which frames replace which native ones."""
