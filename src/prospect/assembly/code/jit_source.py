"""Addresses in JIT code that a jitdump file describes → their source lines.

Comes in: an object row of a profile and addresses in it. Goes out: `Frames`, of one frame each, as
jitdump files say nothing of inlined functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.files.rights import EVERYBODY
from prospect.lines.symcache import Frames, no_frames

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.assembly.code.recorded_objects import RecordedObjects
    from prospect.symbols.jit.jit_code import JitCode
    from prospect.symbols.python.python_code import PythonCode
    from prospect.symbols.table import SymbolTable


def jit_code_of(recorded: RecordedObjects, row: int) -> JitCode | None:
    """Return the code that a jitdump file describes for an object row, None without."""
    key = recorded.keys.get(row)
    return recorded.options.jit_code.get(key.path) if key else None


def jit_frames(recorded: RecordedObjects, row: int, address: NDArray[np.uint64]) -> Frames:
    """Find the source lines of addresses in an object."""
    code = jit_code_of(recorded, row)
    if code is None:
        return no_frames(len(address))
    frames = _frames(code, code.table, address)
    recorded.add_namer(frames, code.speaks_for)
    return frames


def python_frames(recorded: RecordedObjects, row: int, address: NDArray[np.uint64]) -> Frames:
    """Find the source lines of addresses in a source file of Python, as the recording has them."""
    key, code = recorded.keys.get(row), recorded.options.python
    if key is None or code is None:
        return no_frames(len(address))
    frames = _frames(code, code.table(key.path), address)
    recorded.add_namer(frames, EVERYBODY)
    return frames


def _frames(code: JitCode | PythonCode, table: SymbolTable, address: NDArray[np.uint64]) -> Frames:
    files: dict[str, int] = {}
    names: dict[bytes, int] = {}
    found = code.lines_of(address)
    symbol = table.lookup(address)
    is_known = np.array([line > 0 for _, line in found], np.bool_) & (symbol >= 0)
    rows = np.flatnonzero(is_known).tolist()
    symbols = symbol[is_known].tolist()
    return Frames(
        start=np.append(0, np.cumsum(is_known)).astype(np.int64),
        name_index=np.array(
            [names.setdefault(name, len(names)) for name in table.names(symbols)], np.int32
        ),
        file_index=np.array(
            [files.setdefault(found[one][0], len(files)) for one in rows], np.int32
        ),
        line=np.array([found[one][1] for one in rows], np.uint32),
        names=list(names),
        files=list(files),
    )
