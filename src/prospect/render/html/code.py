"""The source behind disassembled routines, which the JSON report does not have.

Comes in: a Profile with code. Goes out: a JSON document: paths of files, and by address in each
routine the file and line of the instruction and that line's text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.profile.source import innermost
from prospect.render.encoding import encoded

if TYPE_CHECKING:
    from prospect.profile.model import Profile


def code_fields(profile: Profile) -> bytes:
    """Return the source lines of the profile's instructions that have hits, as JSON."""
    code = profile.code
    if code is None or code.lines is None:
        return encoded({"files": [], "routines": []})
    files, lines = innermost(code.lines, np.arange(len(code.address)))
    hit = np.isin(code.address, profile.locations.address)
    known = hit & (files >= 0) & (lines > 0)
    routines: list[dict[str, Any]] = []
    for row, function in enumerate(code.function_index.tolist()):
        first = int(code.start[row])
        shown = first + np.flatnonzero(known[first : int(code.start[row + 1])])
        if not len(shown):
            continue
        places = zip(*(c[shown].tolist() for c in (code.address, files, lines)), strict=True)
        routines.append(
            {
                "address": int(profile.functions.address[function]),
                "name": profile.functions.name[function] or None,
                "lines": [
                    [str(address), file, line, code.source.get((file, line))]
                    for address, file, line in places
                ],
            }
        )
    return encoded({"files": code.lines.files, "routines": routines})
