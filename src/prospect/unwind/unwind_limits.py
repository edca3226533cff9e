"""Bounds on stacks, which a damaged or hostile process may have filled.

SECURITY.md lists them.
"""

from __future__ import annotations

# A damaged stack may lead in circles.
MOST_FRAMES = 1024
# Stacks are 8 MB long unless somebody asked for more: beyond this an address is no stack's.
LONGEST_STACK_BYTES = 1 << 30
# Bytes that an adapter puts between a compiled caller's frame and an interpreted one: 255
# arguments of 8 bytes.
MOST_ADDED_BYTES = 1 << 14
