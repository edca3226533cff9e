"""Python functions: code objects as a recording has them → functions and lines."""
