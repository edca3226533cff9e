"""Chains in the kernel → why the CPU was there."""
