"""Bounds on stacks, which a damaged or hostile process may have filled.

SECURITY.md lists them.
"""

from __future__ import annotations

# A damaged stack may lead in circles.
MOST_FRAMES = 1024
# Stacks have 8 MB by default: an address further away is not in the stack.
LONGEST_STACK_BYTES = 1 << 30
# Bytes that an adapter puts between a compiled caller's frame and an interpreted one: 255
# arguments of 8 bytes.
MOST_ADDED_BYTES = 1 << 14
