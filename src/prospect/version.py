"""The version, and the name of the program in documents that it writes."""

__version__ = "0.1.0"


def generator() -> str:
    """Return the program and its version."""
    return f"prospect {__version__}"
