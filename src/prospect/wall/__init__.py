"""Switches, wake-ups and births of threads → the critical path of a command."""
