"""``prospect fleet``: answer questions about all hosts of a store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from prospect.cli.operands import usual_store
from prospect.cli.progress import Progress
from prospect.errors import UsageError
from prospect.files.outputs import ReportFile
from prospect.records import Record, asdict

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from prospect.announcing import Announce
    from prospect.fleet.answers import Answer, AnswerTable
    from prospect.options import Settings

_WORDS = ("top", "outliers", "deploys", "coverage")
_MOST_REMARKS = 3


def run(settings: Settings, words: list[str], _command_line: tuple[str, ...]) -> int:
    """Answer one question.

    Raises:
        ProspectError: the words are invalid, nothing matches, or the store cannot be read.
    """
    asked = words[0] if words else ""
    if asked not in _WORDS:
        from prospect.spelling import suggestion

        raise UsageError(f"fleet: give a question: {', '.join(_WORDS)}{suggestion(asked, _WORDS)}")
    if settings.by == "build" and asked != "outliers":
        raise UsageError(f"--by build works with prospect fleet outliers, not with {asked}")
    name = "builds" if settings.by == "build" else asked
    with ReportFile(settings.output) as target:
        with Progress("reading the hosts' stores") as progress:
            answer, origin = _answered(settings, name, words[1:], progress.announce)
        if settings.format == "json":
            text = (
                json.dumps({"schema": f"prospect-fleet-{name}/1", **_plain(answer)}, indent=1)
                + "\n"
            )
        elif settings.format == "csv":
            text = _csv(answer, name)
        else:
            text = "".join(f"{line}\n" for line in _lines(answer, name, origin))
        target.put(lambda out: out.write(text.encode("utf-8", "backslashreplace")))
    return 0


def _answered(
    settings: Settings, name: str, words: list[str], announce: Announce
) -> tuple[Answer, str]:
    """Return an answer, and the words of its store and part."""
    import shlex

    from prospect.cli.commands import FLEET
    from prospect.fleet.answers import QUESTIONS
    from prospect.fleet.asking import Wanted
    from prospect.fleet.opening import engine_of, opened
    from prospect.store.hosts import asked as asked_again
    from prospect.store.specification import parse_specifications

    build = words.pop(0) if name == "deploys" and words and ":" not in words[0] else ""
    if wrong := [word for word in words if ":" not in word]:
        raise UsageError(FLEET.unexpected(wrong[0]))
    chosen = parse_specifications(words)
    path = settings.store or usual_store()
    wanted = Wanted(settings.fleet_rows, settings.fdr, build, announce)
    with opened(path, chosen.texts.get("host", ())) as store:
        make_engine = engine_of(settings.engine)
        # If a file is damaged, the question is asked again without it.
        answer = asked_again(
            store, lambda store: QUESTIONS[name].ask(store, chosen, make_engine, wanted)
        )
    return answer, shlex.join((path, *words))


def _lines(answer: Answer, name: str, origin: str) -> Iterator[str]:
    """Yield an answer for a terminal of 80 columns and 24 lines."""
    from prospect.fleet.answers import QUESTIONS, TERMINAL
    from prospect.render.escape import escaped

    yield escaped(origin)
    for part in QUESTIONS[name].parts(answer, TERMINAL):
        if isinstance(part, str):
            yield part
        else:
            yield from _table(part)
    for remark in answer.remarks[:_MOST_REMARKS]:
        yield f"Note: {escaped(remark)}"


def _table(table: AnswerTable) -> Iterator[str]:
    from prospect.fleet.answers import TERMINAL
    from prospect.render.escape import escaped
    from prospect.render.text.text_table import Column, table_lines

    rows = table.rows[: table.most]
    columns = [
        Column(one.title, [one.brief(escaped(str(one.cell(row)))) for row in rows], right=one.right)
        for one in table.columns_on(TERMINAL)
    ]
    return table_lines(*columns)


def _plain(value: Any) -> Any:
    """Return figures for JSON: rows by the names of their fields."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: _plain(each) for name, each in value._asdict().items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, Record):
        return {name: _plain(each) for name, each in asdict(value).items()}
    return value


def _csv(answer: Answer, name: str) -> str:
    """Return the main table, with every field of its rows."""
    import csv
    import io

    from prospect.fleet.answers import PAGE, QUESTIONS

    tables = (one for one in QUESTIONS[name].parts(answer, PAGE) if not isinstance(one, str))
    rows = next((one.rows for one in tables if one.rows and one.is_main), [])
    out = io.StringIO()
    writer = csv.writer(out)
    if rows:
        writer.writerow(rows[0]._fields)
    writer.writerows(rows)
    return out.getvalue()
