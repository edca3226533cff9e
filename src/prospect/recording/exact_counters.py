"""Count system calls and calls of functions exactly in the kernel, while it samples.

The counters open before the exec of COMMAND, and have the names of their documents in the
recording.
"""

from __future__ import annotations

from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prospect.announcing import Announce
    from prospect.capture.counting.syscall_counts import Counted
    from prospect.recording.opened_events import RecordOptions


class ExactCounter(Protocol):
    """A counter in the kernel."""

    def start(self) -> None:
        """Begin to count."""

    def finish(self) -> Counted:
        """Stop counting, and return the counts."""


@contextmanager
def exact_counters(
    options: RecordOptions, pid: int, warn: Announce
) -> Iterator[Mapping[str, ExactCounter]]:
    """Open the counters of the options, and close them at the end of the context.

    Args:
        pid: of the process that will become COMMAND.
        warn: called before COMMAND runs, with the possible cost of counting.

    Raises:
        UsageError: there is no such function.
        CaptureError: the kernel refuses.
    """
    with ExitStack() as stack:
        counters: dict[str, ExactCounter] = {}
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
            from prospect.recording.counted_functions import (  # noqa: PLC0415 - COMMAND waits for it
                counted_functions,
                parse_call_patterns,
            )

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
