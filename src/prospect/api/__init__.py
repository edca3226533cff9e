"""The Python interface: what a program calls in place of the command line (docs/python.md)."""
