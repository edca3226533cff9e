"""What the standard library has at a price that is too high before COMMAND's start.

`Closing` is for `contextlib.closing`, which takes 2 ms to import. `signal` is the interpreter's own
functions and numbers, of which the module of that name makes enums: 4 ms and a dozen modules.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from types import TracebackType
    from typing import Self
else:
    import _signal as signal

__all__ = ["Closing", "signal"]


class Closing:
    """Something with a method `close`, which the end of a `with` calls."""

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Let go of all that it holds."""
        raise NotImplementedError
