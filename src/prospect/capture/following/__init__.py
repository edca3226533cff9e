"""Switches and wake-ups of some threads, their descendants, and the threads that wake them."""
