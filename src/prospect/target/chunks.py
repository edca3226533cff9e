"""What the sampler on a target writes: chunks of a letter, a length (u64) and as many bytes.

``I`` is a recording without records, which says what any of the session's says of itself; then come
in turn ``R``, records, and ``M``, a document: the moment that they end at, and what is to be said
of the time since the last one.

This module goes there too: it knows the standard library alone.
"""

from __future__ import annotations

import struct

CHUNK = struct.Struct("<cQ")
INFO, RECORDS, MARK = b"I", b"R", b"M"
