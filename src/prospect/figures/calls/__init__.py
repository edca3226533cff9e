"""Who called whom: totals, trees, the call graph."""
