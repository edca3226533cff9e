"""The interpreter's own functions and numbers of signals, of which `signal` makes enums.

That takes 4 ms and a dozen modules, which whoever waits for COMMAND's start would wait for.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal

__all__ = ["signal"]
