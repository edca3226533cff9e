"""Decoded records → the tables of a profile, a module a table."""
