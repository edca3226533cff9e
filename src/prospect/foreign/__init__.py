"""Profiles that other tools wrote: bytes → the tables of a profile. Opens no file."""
