"""Prospect: a whole-system sampling profiler for Linux."""
