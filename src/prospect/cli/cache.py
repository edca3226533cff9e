"""``prospect cache``: show the files that are kept between runs, or remove them (``--clear``)."""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING

from prospect.cli.terminal import show
from prospect.errors import SymbolError
from prospect.files.user_cache import cache_obstacle
from prospect.fleet import remote_cache
from prospect.recording.sampling_cost import COST_SUFFIX
from prospect.records import NamedTuple
from prospect.render.json.document_fields import indented
from prospect.render.json.machine_documents import CACHE
from prospect.symbols import table_cache as tables
from prospect.symbols.cache_directory import PART_SUFFIX, CacheDirectory
from prospect.symbols.images import debug_files
from prospect.symbols.symbols_limits import LARGEST_DOWNLOAD_BYTES, MOST_TABLE_BYTES

if TYPE_CHECKING:
    from prospect.options import Settings
    from prospect.symbols.cache_directory import KeptFile

_OTHER = "other files"
_KINDS = {
    tables.SYMBOLS_SUFFIX: "symbol tables",
    tables.LINES_SUFFIX: "line tables",
    tables.FRAMES_SUFFIX: "call-frame tables",
    f".{debug_files.DEBUG_INFO}": "debug files from servers",
    f".{debug_files.EXECUTABLE}": "programs from servers",
    debug_files.ABSENT_SUFFIX: "files that servers lack",
    COST_SUFFIX: "what a sample costs",
    PART_SUFFIX: "unfinished files",
}


class KeptFiles(NamedTuple):
    """Files below `directory`, or `removed` from there, and their limits."""

    directory: str
    removed: bool
    kinds: list[KindRow]
    limit_bytes: dict[str, int]


class KindRow(NamedTuple):
    """Files of one kind; `oldest_s` is the last use of the least recently used one."""

    kind: str
    files: int
    size_bytes: int
    oldest_s: float


def run(settings: Settings, _words: list[str], _command_line: tuple[str, ...]) -> int:
    """Show the cache, or remove its files.

    Raises:
        SymbolError: there is none, or its files cannot be removed.
    """
    cache = CacheDirectory.of_user()
    if cache is None:
        raise SymbolError(f"nothing is kept on disk: {cache_obstacle()}")
    _refuse_unusable(cache)
    files = cache.files()
    targets = os.path.join(cache.path, debug_files.TARGETS)
    rows = [
        *kind_rows(files),
        *_rows_below("files of targets", targets),
        *_rows_below("files of buckets", remote_cache.base()),
    ]
    if settings.clear:
        remote_cache.clear()
        shutil.rmtree(targets, ignore_errors=True)
        removed = cache.remove(file.name for file in files)
        if removed < len(files):
            left = len(files) - removed
            raise SymbolError(f"{left} file{'s' * (left > 1)} in {cache.path} cannot be removed")
    limits = {"tables": MOST_TABLE_BYTES, "servers": LARGEST_DOWNLOAD_BYTES}
    kept = KeptFiles(os.fspath(cache.path), settings.clear, rows, limits)
    show(indented(CACHE, kept) if settings.format == "json" else table_text(kept))
    return 0


def kind_rows(files: list[KeptFile]) -> list[KindRow]:
    """Return a row for each kind that has files, in the order of `_KINDS`."""
    of_kind: dict[str, list[KeptFile]] = {name: [] for name in (*_KINDS.values(), _OTHER)}
    for file in files:
        of_kind[_KINDS.get(file.suffix, _OTHER)].append(file)
    return [
        KindRow(
            kind,
            len(members),
            sum(file.size_bytes for file in members),
            min(file.used_ns for file in members) / 1e9,
        )
        for kind, members in of_kind.items()
        if members
    ]


def _rows_below(kind: str, directory: str) -> list[KindRow]:
    files = list(remote_cache.kept(directory))
    if not files:
        return []
    size_bytes, oldest_s = sum(one.size_bytes for one in files), min(one.used_s for one in files)
    return [KindRow(kind, len(files), size_bytes, oldest_s)]


def table_text(kept: KeptFiles) -> str:
    """Return the table, and the limits."""
    path, rows = kept.directory, kept.kinds
    files, size_bytes = sum(row.files for row in rows), sum(row.size_bytes for row in rows)
    if kept.removed:
        return (
            f"Removed {files} file{'s' * (files != 1)}, {_mebibytes(size_bytes)} MiB, from {path}\n"
        )
    lines = [f"{path}", ""]
    if rows:
        lines.append(f"  {'kind':26}{'files':>7}{'MiB':>10}  last use, earliest")
        lines += [
            f"  {row.kind:26}{row.files:7}{_mebibytes(row.size_bytes):>10}  {_date(row.oldest_s)}"
            for row in rows
        ]
    lines.append(f"  {'all':26}{files:7}{_mebibytes(size_bytes):>10}")
    most_tables, most_sent = (most >> 20 for most in kept.limit_bytes.values())
    limits = (
        f"Limits: {most_tables} MiB of tables, {most_sent} MiB from servers, as much from each "
        "target; the least recently used are removed first.\n"
        "All of it may be removed at any time: prospect cache --clear\n"
    )
    return "\n".join(lines) + "\n\n" + limits


def _refuse_unusable(cache: CacheDirectory) -> None:
    try:
        with cache.opened():
            pass
    except FileNotFoundError:
        return
    except OSError as error:
        reason = error.strerror or str(error)
        raise SymbolError(f"{cache.path} is not used: {reason}") from None


def _mebibytes(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 20):.1f}"


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(seconds))
