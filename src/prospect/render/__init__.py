"""Profile → bytes; one file a format."""
