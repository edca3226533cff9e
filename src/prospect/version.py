"""The version, in one place, and how documents name the program that wrote them."""

__version__ = "0.1.0"


def generator() -> str:
    """Return the program and its version."""
    return f"prospect {__version__}"
