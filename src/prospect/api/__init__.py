"""The Python interface, for programs (docs/python.md)."""
