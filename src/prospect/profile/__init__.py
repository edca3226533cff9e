"""The leaf model: tables that a recording amounts to."""
