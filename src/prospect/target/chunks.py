"""What the sampler on a target writes: chunks of a letter, a length (u64) and as many bytes.

``I`` is a recording without records, which says what any of the session's says of itself; ``W``,
where somebody was named, a document of whom the session follows. Then come in turn ``R``, records,
and ``M``, a document: the moment that they end at, and what is to be said of the time since the
last one. ``E``, once and empty, says that all that were named have ended.

This module goes there too: it knows the standard library alone.
"""

from __future__ import annotations

import struct

CHUNK = struct.Struct("<cQ")
INFO, WHOM, RECORDS, MARK, ENDED = b"I", b"W", b"R", b"M", b"E"
