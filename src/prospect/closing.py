"""What is closed at the end of a `with`, as by `contextlib.closing`, which takes 2 ms to import."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self


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
