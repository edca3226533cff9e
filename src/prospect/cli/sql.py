"""``prospect sql``: answer a query on a store."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING

from prospect.cli.operands import usual_store
from prospect.cli.terminal import say
from prospect.errors import UsageError
from prospect.files.outputs import ReportFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from prospect.options import Settings

_FORMATS = ("text", "json", "csv")


def run(settings: Settings, words: list[str], _command_line: tuple[str, ...]) -> int:
    """Answer a query.

    Raises:
        ProspectError: it is no SELECT or has an error, or the store cannot be read.
    """
    if not words:
        raise UsageError(
            "sql: give a query: prospect sql"
            " 'SELECT service, sum(n) FROM hits GROUP BY service ORDER BY 2 DESC'"
        )
    if settings.format not in _FORMATS:
        raise UsageError(f"sql: --format is one of {', '.join(_FORMATS)}")
    from prospect.fleet.opening import engine_of, opened
    from prospect.store.tables import answered

    make_engine = engine_of(settings.engine)
    with ReportFile(settings.output) as target:
        with (
            opened(settings.store or usual_store()) as store,
            answered(store, words[0], make_engine) as (names, rows, remarks),
        ):
            pieces = {"text": _table, "json": _json, "csv": _csv}[settings.format](names, rows)
            text = "".join(pieces).encode("utf-8", "backslashreplace")
        target.put(lambda out: out.write(text))
    for remark in remarks:
        say(remark)
    return 0


def _table(names: list[str], rows: Iterable[tuple[Any, ...]]) -> Iterator[str]:
    from prospect.render.escape import escaped
    from prospect.render.text.text_table import Column, table_lines

    every = list(rows)
    columns = [
        Column(
            escaped(name),
            [escaped(_text(row[at])) for row in every],
            right=all(isinstance(row[at], (int, float)) for row in every),
        )
        for at, name in enumerate(names)
    ]
    for line in table_lines(*columns):
        yield line + "\n"


def _json(names: list[str], rows: Iterable[tuple[Any, ...]]) -> Iterator[str]:
    found = [dict(zip(names, row, strict=True)) for row in rows]
    yield json.dumps(found, indent=1, default=str) + "\n"


def _csv(names: list[str], rows: Iterable[tuple[Any, ...]]) -> Iterator[str]:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(names)
    writer.writerows([_text(value) for value in row] for row in rows)
    yield out.getvalue()


def _text(value: object) -> str:
    return "" if value is None else str(value)
