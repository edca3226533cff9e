"""Samples with Python frames: which frames stand for which of their native ones."""
