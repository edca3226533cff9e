"""Recorded chains and copies of stacks → the stacks of samples."""
