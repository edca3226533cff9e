"""``prospect view``: serve a recording or store as a page for a browser on this machine."""

from __future__ import annotations

import gc
import os
import signal
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from prospect.cli.analysis import Unread, get_ready, repeated, sinks
from prospect.cli.commands import VIEW
from prospect.cli.operands import readable, refuse
from prospect.cli.progress import Progress
from prospect.cli.terminal import say
from prospect.errors import ProspectError, UsageError
from prospect.options import ReportOptions
from prospect.records import asdict, project, replace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from queue import SimpleQueue

    from prospect.assembly.code.later_code import LaterCode
    from prospect.options import Settings
    from prospect.web.recording_answers import ServedRecording
    from prospect.web.server import LoopbackServer
    from prospect.web.site import GuardedSite

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(settings: Settings, words: list[str], command_line: tuple[str, ...]) -> int:
    """Serve the named recording, a file or "-" for a pipe on stdin, until a signal ends it.

    Raises:
        ProspectError: the recording cannot be read, or the port cannot be used.
    """
    typed = command_line[2:]
    if settings.store:
        return _of_store(settings, words, typed)
    recording = readable(words[0] if words else "", "view")
    _refuse_open_as_root(settings)
    unread = Unread()
    served = _prepared(recording, settings, typed, unread)
    status = unread.exit_status()
    gc.enable()
    # Garbage may keep files mapped that other programs want to write to. The rest lives until the
    # end: the collector need not visit it.
    gc.collect()
    gc.freeze()
    import secrets

    from prospect.web.site import Site

    token = secrets.token_urlsafe()
    _serve(Site(served, token), token, settings)
    return status


def _of_store(settings: Settings, words: list[str], typed: tuple[str, ...]) -> int:
    """Serve a store until a signal ends it."""
    _refuse_open_as_root(settings)
    refuse(settings, inline="--inline")
    get_ready()
    import secrets

    from prospect.assembly.code.code import code_of_report
    from prospect.render.html import HtmlRenderer
    from prospect.web.store_site import ShownStore, StoreSite

    token = secrets.token_urlsafe()
    shown_options = asdict(project(settings, ReportOptions))
    renderer = HtmlRenderer(**shown_options, repeated=repeated(VIEW, typed))
    code = code_of_report(settings)
    gc.enable()
    with Progress("reading the store"):
        shown = ShownStore(settings.store, words, renderer, settings, code, settings.engine)
        site = StoreSite(shown, token)
    _serve(site, token, settings)
    return 0


def _refuse_open_as_root(settings: Settings) -> None:
    if settings.opens_browser and os.geteuid() == 0:
        raise UsageError("--open: not as root; open the address in your own browser")


def _prepared(
    recording: str, settings: Settings, typed: tuple[str, ...], unread: Unread
) -> ServedRecording:
    get_ready()
    from prospect.analysis.profile_request import ProfileRequest
    from prospect.api import recorded_profile as api
    from prospect.assembly.code.code import code_of_report
    from prospect.render.html import HtmlRenderer
    from prospect.web.recording_answers import CodeFinder, serve_profile

    choice = code_of_report(settings)
    found: list[LaterCode] = []
    with Progress("reading the recording") as progress:
        wanted = ProfileRequest(lines=settings.inline, stacks=True, waits=True, turns=True)
        keeping = replace(sinks(progress, unread), keep_code=found.append)
        profile = api.read(recording, settings, wanted, keeping, settings.program)
        progress.announce("preparing the page")
        renderer = HtmlRenderer(
            **asdict(project(settings, ReportOptions)),
            recording=recording if recording != "-" else "",
            repeated=repeated(VIEW, typed),
        )
        finder = CodeFinder(found[0] if found else None, choice)
        return serve_profile(profile, renderer, finder)


def _serve(site: GuardedSite, token: str, settings: Settings) -> None:
    from prospect.web.server import LoopbackServer

    try:
        server = LoopbackServer(site, settings.port)
    except OSError as error:
        raise ProspectError(f"--port {settings.port}: {error.strerror}") from error
    address = f"http://127.0.0.1:{server.server_port}/{token}/"
    with server, ExitStack() as stack, _serving(server) as ending:
        if settings.opens_browser:
            from prospect.web.server import opened_in_browser

            try:
                stack.enter_context(opened_in_browser(address))
            except OSError as error:
                raise ProspectError(
                    f"--open: no file for the browser can be made: {error.strerror}"
                ) from error
        say(f"look at {address} (Ctrl-C ends it)")
        ending.get()


@contextmanager
def _serving(server: LoopbackServer) -> Iterator[SimpleQueue[int]]:
    """Serve while the block runs; the queue gets the numbers of signals that end programs.

    A signal that was ignored before stays ignored. None is blocked, so the browser gets them as
    usual. An event would not work: a handler that sets it would deadlock if it interrupts `wait`.
    """
    import queue
    import threading

    ended: SimpleQueue[int] = queue.SimpleQueue()
    before = {
        one: signal.signal(one, lambda number, _: ended.put(number))
        for one in _ENDING
        if signal.getsignal(one) is not signal.SIG_IGN
    }
    thread = threading.Thread(target=server.serve_forever, name="server")
    thread.start()
    try:
        yield ended
    finally:
        server.shutdown()
        thread.join()
        for one, handler in before.items():
            signal.signal(one, handler)
