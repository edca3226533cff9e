"""How far the clock of a jitdump file's writer is ahead of the recording's.

Both clocks are CLOCK_MONOTONIC, which a time namespace shifts: records of the kernel have the time
of the initial namespace. Defined by time_namespaces(7).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prospect.symbols.jit.jitdump import JitDump

_S = 1_000_000_000
# A JIT maps the file as it writes the header. A smaller difference is no namespace's.
_SAME_NS = _S
# V8 (Node 22) has another clock in the header: such a time is nowhere near the first record's.
_LONGEST_NS = 3600 * _S
# Shifts are mostly whole seconds; a JIT takes this long from the header to its first record.
_FIRST_RECORD_NS = 100_000_000
_BEFORE_NS = 20_000_000


def clock_shift_ns(dump: JitDump, mapped_ns: int, end_ns: int) -> int | None:
    """Return by how much times of a dump are too late; None if that is not known.

    Args:
        dump: with times of CLOCK_MONOTONIC.
        mapped_ns: when its writer mapped it, on the recording's clock; 0 for before the recording.
        end_ns: when the recording ended.
    """
    if not len(dump):
        return 0
    first_ns = int(dump.time_ns.min())
    has_header = 0 <= first_ns - dump.opened_ns < _LONGEST_NS
    opened_ns = dump.opened_ns if has_header else first_ns
    if not mapped_ns:
        return None if opened_ns > end_ns else 0
    ahead_ns = opened_ns - mapped_ns
    # A JIT without work writes its first record late, but none for samples of this recording.
    is_late = ahead_ns > 0 and not has_header and opened_ns <= end_ns
    if abs(ahead_ns) < _SAME_NS or is_late:
        return 0
    over_ns = (ahead_ns + _BEFORE_NS) % _S
    is_whole = over_ns < _FIRST_RECORD_NS
    return ahead_ns + _BEFORE_NS - over_ns if is_whole else ahead_ns
