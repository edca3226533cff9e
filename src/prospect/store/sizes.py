"""Untrusted Parquet files → those that unpack to far more than their size.

A file of a few KB may have a text of 40 MB in each of its rows. Its footer is read before any of
its rows. If the footer leaves open how long texts are, their lengths are added up. A footer may be
wrong: then an answer runs out of memory, and reading the files of each host alone finds that host.
"""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING, Any

from prospect.store.engine import EngineError, OutOfMemoryError
from prospect.store.file_schema import COLUMNS
from prospect.store.segments import FUNCTIONS

if TYPE_CHECKING:
    from prospect.store.engine import Engine

_BASE_BYTES = 32 << 20
# Ours unpack to some twenty times their size, and each value of a number takes eight bytes then.
_MOST_TIMES = 300
_VALUE_BYTES = 8
# From here on texts are measured: a dictionary of this size may be in every row.
_LARGE_DICTIONARY_BYTES = 1 << 18
_MUCH_MORE = 4
# A query for each file would take longer than to read it.
_FILES_AT_ONCE = 64
_FOOTERS = (
    "SELECT file_name, sum(total_uncompressed_size), sum(total_compressed_size), sum(num_values),"
    # Plain texts are as long as their column; those of a dictionary are anything.
    " coalesce(sum(total_uncompressed_size)"
    " FILTER (type = 'BYTE_ARRAY' AND encodings IS DISTINCT FROM 'PLAIN'), 0),"
    " least(min(total_uncompressed_size), min(num_values), min(total_compressed_size)),"
    " max(num_values) FROM parquet_metadata(?) GROUP BY file_name ORDER BY file_name"
)


def refuse_bombs(engine: Engine, paths: list[str], kind: str) -> None:
    """Refuse files that unpack to much more than their size.

    Args:
        engine: to read them with.
        paths: of files of one kind.
        kind: of the files.

    Raises:
        EngineError: one does, or cannot be read.
    """
    footers = _footers(engine, paths)
    unclear = [
        path
        for path, _, _, _, texts, _, rows in footers
        if texts > _LARGE_DICTIONARY_BYTES and texts * rows > _BASE_BYTES
    ]
    bytes_of = _text_bytes(engine, unclear, kind)
    for path, unpacked, packed, values, _, least, _ in footers:
        most = _BASE_BYTES + _MOST_TIMES * packed
        size = unpacked + _VALUE_BYTES * values + bytes_of.get(path, 0)
        if size > most or least < 0:
            raise EngineError(
                f"its {kind} unpack to {size / 1e6:,.0f} MB, from {packed / 1e6:.3f} MB"
            )


def heaviest(engine: Engine, files_of: dict[str, dict[str, list[str]]]) -> str:
    """Return the host whose files unpack to far more than those of the others; "" for none.

    Args:
        engine: to read them with.
        files_of: by host, its files by kind.
    """
    bytes_of: dict[str, float] = defaultdict(float)
    for host, by_kind in files_of.items():
        try:
            for kind, paths in by_kind.items():
                footers = _footers(engine, paths)
                bytes_of[host] += sum(one[1] + _VALUE_BYTES * one[3] for one in footers)
                if kind == FUNCTIONS:
                    bytes_of[host] += sum(_text_bytes(engine, paths, kind).values())
        except OutOfMemoryError:
            return host
        except EngineError:  # damaged: found otherwise
            continue
    if len(bytes_of) < 2:
        return ""
    host = max(bytes_of, key=lambda one: bytes_of[one])
    others = median(size for one, size in bytes_of.items() if one != host)
    return host if bytes_of[host] > max(_MUCH_MORE * others, _BASE_BYTES) else ""


def _footers(engine: Engine, paths: list[str]) -> list[tuple[Any, ...]]:
    """Return a row of `_FOOTERS` for each file, whose numbers have any size."""
    return engine.rows(_FOOTERS, [paths]) if paths else []


def _text_bytes(engine: Engine, paths: list[str], kind: str) -> dict[str, int]:
    """Return how long all texts of each file are, which are looked at one after another."""
    texts = [name for name, type_ in COLUMNS[kind].items() if type_ == "VARCHAR"]
    sizes = " + ".join(f'sum(strlen("{name}"))' for name in texts) or "0"
    query = f"SELECT filename, {sizes} FROM read_parquet(?, filename=true) GROUP BY filename"
    found: dict[str, int] = {}
    for begin in range(0, len(paths), _FILES_AT_ONCE):
        rows = engine.rows(query, [paths[begin : begin + _FILES_AT_ONCE]])
        found |= {path: int(size or 0) for path, size in rows}
    return found
