"""Callers and callees: totals, trees, the call graph."""
