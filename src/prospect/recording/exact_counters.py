"""Count exactly in the kernel, at the same time as it samples: system calls, calls of functions.

The counters are opened before the command is executed, and have the names that their documents have
in the recording.
"""

from __future__ import annotations

from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from prospect.announcing import Announce
    from prospect.recording.opened_events import RecordOptions


class Counted(Protocol):
    """The result of counting: a document for the recording, and sentences on its limits."""

    @property
    def document(self) -> dict[str, Any]:
        """The document for the recording."""
        ...

    @property
    def limits(self) -> tuple[str, ...]:
        """Sentences about functions that were not counted."""
        ...


class ExactCounter(Protocol):
    """A counter in the kernel."""

    def start(self) -> None:
        """Begin to count."""
        ...

    def finish(self) -> Counted:
        """Count no more, and return what was counted."""
        ...


@contextmanager
def exact_counters(
    options: RecordOptions, pid: int, warn: Announce
) -> Iterator[Mapping[str, ExactCounter]]:
    """Open the counters that were asked for; behind the context nothing of them is left.

    Args:
        options: what to count, and in what command.
        pid: of the process that will become it.
        warn: called before COMMAND runs, with what counting may cost it.

    Raises:
        UsageError: there is no such function.
        CaptureError: this kernel or this user cannot count.
    """
    with ExitStack() as stack:
        counters: dict[str, ExactCounter] = {}
        # Each import delays the command's start: import only where needed.
        if options.count_syscalls:
            from prospect.capture.counting.syscall_counts import SyscallCounter  # noqa: PLC0415 - COMMAND waits for it

            syscalls = stack.enter_context(closing(SyscallCounter()))
            syscalls.open()
            counters["syscalls"] = syscalls
        if options.count_calls:
            from prospect.capture.counting.call_counter import (  # noqa: PLC0415 - COMMAND waits for it
                CallCounter,
                require_known_machine,
            )
            from prospect.capture.counting.call_patterns import parse_call_patterns  # noqa: PLC0415 - COMMAND waits for it
            from prospect.recording.counted_functions import counted_functions  # noqa: PLC0415 - COMMAND waits for it

            require_known_machine()
            patterns = parse_call_patterns(options.count_calls)
            functions = stack.enter_context(counted_functions(patterns, options.command))
            budget = options.count_budget_percent / 100
            calls = stack.enter_context(closing(CallCounter(functions, budget)))
            calls.open(pid)
            if options.count_hook:
                calls.add_hook(options.count_hook, pid)
            if calls.warning:
                warn(calls.warning)
            counters["calls"] = calls
        yield counters
