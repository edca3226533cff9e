"""``prospect daemon``: sample the whole system for months, into a store."""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING

from prospect.cli.operands import usual_store
from prospect.cli.terminal import say, show
from prospect.errors import StoreError, UsageError

if TYPE_CHECKING:
    from prospect.daemon.daemon_options import DaemonOptions
    from prospect.options import Settings
    from prospect.store.directory import StoreDirectory

_FILE = "options"
_MOST_BYTES = 1 << 16
_LIBRARY = "library"
_OF_LIBRARIES = (
    "--separate library: samples in a library are kept by program anyway, as in "
    "prospect report --store DIR lib-image:'*/libc.so*' --columns program"
)


def run(settings: Settings, _words: list[str], command_line: tuple[str, ...]) -> int:
    """Run until a signal ends it.

    Raises:
        ProspectError: the system cannot be sampled, or the store cannot be used.
    """
    if settings.unit:
        return _show_unit(settings, command_line)
    from prospect.columns.process import return_freed_memory, start_numpy

    start_numpy()
    return_freed_memory()
    os.umask(0o077)
    from prospect.daemon.daemon_rights import keep_what_is_needed
    from prospect.daemon.loop import Daemon
    from prospect.store.directory import StoreDirectory
    from prospect.store.engine import require_engine
    from prospect.store.retention import clean

    require_engine()
    path = _own_directory(settings)
    if not settings.store:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    with StoreDirectory(path, create=True) as store:
        store.lock()
        clean(store)
        keep_what_is_needed()
        daemon = Daemon(store, lambda: _options(store, command_line), say)
        of_target = f" {settings.target}" if settings.target else ""
        if _LIBRARY in settings.separate:
            say(_OF_LIBRARIES)
        # The modules so far live until the end: the collector need not visit them.
        gc.freeze()
        daemon.run(f"sampling{of_target} into {path}; Ctrl-C or SIGTERM ends it")
    return 0


def _own_directory(settings: Settings) -> str:
    """Return the path of the store."""
    from prospect.fleet.store_places import S3, place_of

    place = place_of(settings.store or usual_store(settings.target))
    if place.scheme == S3:
        raise UsageError(f"--store: a daemon writes to a directory; --ship {place.url} sends there")
    return place.path


def _show_unit(settings: Settings, command_line: tuple[str, ...]) -> int:
    """Show the systemd unit that runs this daemon with these options."""
    import sys

    from prospect.daemon.daemon_rights import unit_text
    from prospect.daemon.metrics import is_address
    from prospect.fleet.store_places import FILE, place_of

    sent_to = place_of(settings.ship) if settings.ship else None
    directory = sent_to.path if sent_to and sent_to.scheme == FILE else ""
    metrics = "" if is_address(settings.metrics) else settings.metrics
    for path in (settings.store, metrics, directory):
        if path and not os.path.isabs(path):
            raise UsageError(
                f"a service has no current directory: give '{path}' as an absolute path"
            )
    program = os.path.realpath(sys.argv[0])
    command = [program] if os.access(program, os.X_OK) else [sys.executable, "-m", "prospect"]
    words = [word for word in command_line[2:] if word != "--unit"]
    text = unit_text(
        [*command, "daemon", *words],
        settings.store,
        metrics,
        sent_to=directory,
        has_network=bool(
            settings.target
            or settings.push
            or metrics != settings.metrics
            or settings.kubelet
            or (settings.ship and not directory)
        ),
        state="prospect-targets" if settings.target else "prospect",
    )
    show(text)
    return 0


def _options(store: StoreDirectory, command_line: tuple[str, ...]) -> DaemonOptions:
    """Return the options of the command line and of the store's file ``options``, which wins."""
    import shlex

    from prospect.cli.commands import DAEMON
    from prospect.cli.option_parser import parse
    from prospect.daemon.daemon_limits import MEMORY_LIMIT, MEMORY_LIMIT_WITH_COPIES
    from prospect.daemon.daemon_options import DaemonOptions
    from prospect.daemon.metrics import is_address
    from prospect.files.budget import size_in_bytes
    from prospect.fleet.targets import check_target
    from prospect.store.retention import parse_keep

    given = list(command_line[2:])
    try:
        text = store.read_bytes(_FILE, _MOST_BYTES).decode(errors="backslashreplace")
        words = shlex.split(text, comments=True)
    except FileNotFoundError:
        words = []
    except OSError as error:
        raise StoreError(f"{store.path}/{_FILE}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{store.path}/{_FILE}: {error}") from None
    try:
        settings, operands = parse(DAEMON, [*given, *words])
    except UsageError as error:
        raise UsageError(f"{store.path}/{_FILE}: {error}") from None
    if settings.ship:
        check_target(settings.ship)
    elif settings.host_share < 1:
        raise UsageError("--host-share needs --ship")
    if operands:
        raise UsageError(f"{store.path}/{_FILE}: unexpected '{operands[0]}'")
    return DaemonOptions(
        frequency_hz=settings.daemon_hz,
        call_graph="" if settings.daemon_call_graph == "none" else settings.daemon_call_graph,
        window_s=settings.window_s,
        separate=tuple(word for word in settings.separate if word != _LIBRARY),
        keep=parse_keep(settings.keep),
        use_cache=settings.use_cache,
        metrics=settings.metrics
        if is_address(settings.metrics)
        else os.path.abspath(settings.metrics)
        if settings.metrics
        else "",
        ship=settings.ship,
        host_share=settings.host_share,
        push=settings.push,
        command_line=command_line,
        target=settings.target,
        kubelet=settings.kubelet,
        cpu_limit_percent=settings.cpu_limit_percent,
        memory_limit_bytes=settings.memory_limit_bytes
        or size_in_bytes(
            MEMORY_LIMIT_WITH_COPIES if settings.daemon_call_graph == "auto" else MEMORY_LIMIT
        ),
    )
