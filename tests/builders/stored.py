"""Stores with windows whose content is known."""

from __future__ import annotations

import hashlib
import os
import pickle
import shutil
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from builders.stacks import stacks_profile
from prospect.profile.complete import complete
from prospect.store.directory import FORMAT, StoreDirectory
from prospect.store.engine import Engine
from prospect.store.segments import CURRENT, SAMPLES
from prospect.store.windows import Span, Window, window_of
from prospect.store.writing import next_number, segment_for, without_known, write_segment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prospect.profile.model import Profile
    from prospect.store.segments import Segment
    from prospect.store.writing import Known

US = 10**6
Result = TypeVar("Result")
# Of this run alone, and of all its workers: see conftest.py.
_WRITTEN = Path(os.environ["XDG_CACHE_HOME"]) / "written-stores"
# 2026-11-22 14:05:00 UTC
BEGIN_S = 1_795_356_300


class Writer:
    """Adds windows to a store, one after the other, in this process."""

    def __init__(self, store: StoreDirectory, engine: Engine, session: str = CURRENT) -> None:
        """Go on behind what the store has; the caller holds its lock."""
        self.session = session
        self._store = store
        self._engine = engine
        self._number = next_number(store)
        self._known: Known | None = None

    def add(self, window: Window) -> Segment:
        """Write a window; raises as `write_segment`, and has then written nothing that is read."""
        segment = segment_for(window.span, self.session, self._number)
        tables, known = without_known(window, segment.directory, self._known)
        write_segment(self._store, self._engine, segment, window.head, tables)
        self._number += 1
        self._known = known
        return segment


def window_at(minute: int, profile: Profile | None = None, **options: object) -> Window:
    begin_us = (BEGIN_S + 60 * minute) * US
    span = Span(begin_us, begin_us + 60 * US)
    return window_of(profile or stacks_profile(), span, **options)


def written_once(path: Path, content: object, write: Callable[[], Result]) -> Result:
    """Write a store, or copy what was written of the same content before in this run.

    DuckDB takes 40 ms of CPU time for a window. `content` is all that decides what `write` writes
    and returns, and is pickled; what is there already is added to, and not copied.
    """
    if path.exists():
        return write()
    kept = _WRITTEN / hashlib.sha256(pickle.dumps(content)).hexdigest()
    if kept.exists():
        # When and where it was made is what tells a store from its copies: this is none.
        StoreDirectory(str(path), create=True).close()
        shutil.copytree(
            kept / "store",
            path,
            ignore=shutil.ignore_patterns(FORMAT),
            copy_function=shutil.copy,
            dirs_exist_ok=True,
        )
        copied: Result = pickle.loads((kept / "result").read_bytes())
        return copied
    result = write()
    own = kept.with_suffix(f".{os.getpid()}")
    shutil.copytree(path, own / "store")
    (own / "result").write_bytes(pickle.dumps(result))
    try:
        own.rename(kept)
    except OSError:  # another worker was quicker
        shutil.rmtree(own)
    return result


def fill(path: Path | str, windows: Iterable[Window], session: str = "current") -> list[Segment]:
    """Write windows to a store, which is made if it is not there."""
    listed = list(windows)
    return written_once(Path(path), (listed, session), lambda: _filled(path, listed, session))


def _filled(path: Path | str, windows: list[Window], session: str) -> list[Segment]:
    with StoreDirectory(str(path), create=True) as store:
        store.lock()
        engine = Engine(store)
        try:
            writer = Writer(store, engine, session)
            return [writer.add(window) for window in windows]
        finally:
            engine.close()


def samples_file(path: Path, segment: Segment) -> Path:
    return path / segment.path(SAMPLES)


def lose_a_value(file: Path, column: str) -> None:
    """Write a file as another program might that has no value of a column in the first row."""
    import duckdb  # noqa: PLC0415 - tests of stores alone need it

    with closing(duckdb.connect()) as connection:
        path = str(file)
        heads = connection.execute("SELECT key, value FROM parquet_kv_metadata(?)", [path])
        named = [f"{key.decode()}: '{value.decode()}'" for key, value in heads.fetchall()]
        options = f", KV_METADATA {{{', '.join(named)}}}" if named else ""
        lost = f'CASE WHEN file_row_number = 0 THEN NULL ELSE "{column}" END AS "{column}"'
        connection.execute(
            f"COPY (SELECT * EXCLUDE file_row_number REPLACE ({lost})"
            " FROM read_parquet(?, hive_partitioning=false, file_row_number=true))"
            f" TO '{path}.lost' (FORMAT parquet{options})",
            [path],
        )
    lossy = file.with_name(f"{file.name}.lost")
    file.write_bytes(lossy.read_bytes())
    lossy.unlink()


def by_function(profile: Profile, times: int = 1) -> Counter[tuple[str, ...]]:
    """Return the hits of each process, thread, mode, entry reason, function and object."""
    whole = complete(profile)
    hits, functions = whole.hits, whole.functions
    function = whole.locations.function_index.take(hits.location_index)
    counted: Counter[tuple[str, ...]] = Counter()
    for process, comm, mode, entry_reason, symbol, count in zip(
        hits.process_index.tolist(),
        hits.comm_index.tolist(),
        hits.mode.tolist(),
        hits.entry_reason_index.tolist(),
        function.tolist(),
        hits.count.tolist(),
        strict=True,
    ):
        key = (
            whole.processes.name[process],
            whole.comms[comm],
            str(mode),
            whole.entry_reasons.name[entry_reason],
            functions.name[symbol],
            whole.objects.path[functions.object_index[symbol]],
        )
        counted[key] += count * times
    return counted
