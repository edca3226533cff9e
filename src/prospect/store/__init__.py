"""Profiles over time ↔ the files of a store. Knows nothing of decoding."""
