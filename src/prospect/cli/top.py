"""``prospect top``: show where CPU time goes, live, in a terminal."""

from __future__ import annotations

import gc
import os
import shlex
import sys
from contextlib import closing
from typing import TYPE_CHECKING

from prospect.cli.analysis import get_ready
from prospect.cli.progress import Progress
from prospect.cli.terminal import takes_escapes
from prospect.errors import ProspectError, UsageError

if TYPE_CHECKING:
    from prospect.live.session import SteadySession
    from prospect.options import Settings

_TEXTUAL = "'textual>=8.0'"
_STANDARD_FILES = (0, 1, 2)
# Copies of stacks would cost more than all the rest.
_CALL_GRAPH = "fp"
_SWITCH_S = 0.001
_SIGNALLED = 128  # as a shell reports a signal


def run(settings: Settings, _words: list[str], command_line: tuple[str, ...]) -> int:
    """Sample the whole system, or the processes or threads of -p or -t, until the user ends it.

    Raises:
        ProspectError: there is no terminal, textual is not installed, or the system cannot be
            sampled.
    """
    if not all(map(takes_escapes, _STANDARD_FILES)):
        raise UsageError(
            "top needs a terminal for its input and its output; to profile everything for 10 s"
            " into a file: prospect --for 10 -V4 -f FILE"
        )
    if settings.pids and settings.tids:
        raise UsageError("-p names processes, -t threads: give one of them")
    get_ready()
    try:
        from prospect.tui.app import TopApp
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith(("textual", "rich")):
            raise
        raise ProspectError(
            f"prospect top needs textual: {shlex.quote(sys.executable)} -m pip install {_TEXTUAL}"
        ) from None
    with closing(_session(settings, command_line)) as session:
        # The modules so far live until the end: the collector need not visit them.
        gc.freeze()
        gc.enable()
        # The thread that reads keys gets the interpreter sooner.
        sys.setswitchinterval(_SWITCH_S)
        app = TopApp(session, use_cache=settings.use_cache)
        app.run()
        status = _SIGNALLED + app.ended_by if app.ended_by else app.return_code or 0
        if app.is_working():
            # The terminal is restored. The kernel frees the rest, without delay for the user.
            os._exit(status)
    if app.failure:
        raise app.failure
    return status


def _session(settings: Settings, command_line: tuple[str, ...]) -> SteadySession:
    from prospect.live.session import LiveSession, SteadySession
    from prospect.options import RecordingOptions
    from prospect.recording.opened_events import RecordOptions
    from prospect.records import asdict, project, replace

    recording = project(settings, RecordingOptions)
    call_graph = settings.call_graph or _CALL_GRAPH
    options = RecordOptions(
        **asdict(replace(recording, call_graph="" if call_graph == "none" else call_graph)),
        command_line=command_line,
        tids=settings.tids,
        use_cache=settings.use_cache,
    )
    if settings.target:
        from prospect.target.target_source import source_on

        source = source_on(settings.target)
        return SteadySession(options, lambda wanted: LiveSession(wanted, source=source, turns=True))
    with Progress("reading the running processes"):
        return SteadySession(options, lambda wanted: LiveSession(wanted, turns=True))
