"""(object, address) → source file, line and inlined callers, for asked addresses only."""
