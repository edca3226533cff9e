"""``prospect fleet``: questions about the hosts of a store, all at once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from prospect.cli.options import unexpected
from prospect.cli.progress import Progress
from prospect.cli.store_place import usual_store
from prospect.errors import UsageError
from prospect.files.outputs import ReportFile
from prospect.records import Record, contents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from prospect.announcing import Announce
    from prospect.cli.settings import Settings
    from prospect.fleet.build_outliers import BuildOutliers
    from prospect.fleet.coverage import Coverage
    from prospect.fleet.deploys import Deploys
    from prospect.fleet.outliers import Outliers
    from prospect.fleet.top import Top
    from prospect.store.directory import StoreDirectory
    from prospect.store.specification import Specification

    Answer = Top | Outliers | BuildOutliers | Deploys | Coverage

_WORDS = ("top", "outliers", "deploys", "coverage")
# The rows of an answer, as CSV has them.
_ROWS = {"top": "rows", "outliers": "rows", "deploys": "changes", "coverage": "hosts"}


def run(settings: Settings, words: list[str], _command_line: tuple[str, ...]) -> int:
    """Answer one question.

    Raises:
        ProspectError: the words mean nothing, nothing fits, or the store cannot be read.
    """
    asked = words[0] if words else ""
    if asked not in _WORDS:
        from prospect.spelling import suggestion

        raise UsageError(f"fleet: give a question: {', '.join(_WORDS)}{suggestion(asked, _WORDS)}")
    if settings.by == "build" and asked != "outliers":
        raise UsageError(f"--by build works with prospect fleet outliers, not with {asked}")
    target = ReportFile(settings.output)
    try:
        with Progress("reading the hosts' stores") as progress:
            answer, origin = _answered(settings, asked, words[1:], progress.announce)
        if settings.format == "json":
            text = json.dumps(_plain(answer), indent=1) + "\n"
        elif settings.format == "csv":
            text = "".join(_csv(answer, asked))
        else:
            from prospect.cli.fleet_text import lines_of

            text = "".join(f"{line}\n" for line in lines_of(answer, origin))
        target.put(lambda out: out.write(text.encode("utf-8", "backslashreplace")))
    finally:
        target.close()
    return 0


def _answered(
    settings: Settings, asked: str, words: list[str], announce: Announce
) -> tuple[Answer, str]:
    """Return an answer, and what it is of."""
    import shlex

    from prospect.cli.commands import FLEET
    from prospect.fleet.opening import opened
    from prospect.store.hosts import asked as asked_again
    from prospect.store.specification import parse_specifications

    build = words.pop(0) if asked == "deploys" and words and ":" not in words[0] else ""
    if wrong := [word for word in words if ":" not in word]:
        raise UsageError(unexpected(FLEET, wrong[0]))
    chosen = parse_specifications(words)
    path = settings.store or usual_store()
    with opened(path, chosen.texts.get("host", ())) as store:
        # Where a file turns out to be damaged, the question is asked again without it.
        answer = asked_again(store, _question(asked, settings, chosen, build, announce))
    return answer, shlex.join((path, *words))


def _question(
    asked: str, settings: Settings, chosen: Specification, build: str, announce: Announce
) -> Callable[[StoreDirectory], Answer]:
    from prospect.fleet.opening import engine_of

    rows, fdr, make_engine = settings.fleet_rows, settings.fdr, engine_of(settings.engine)
    if asked == "top":
        from prospect.fleet.top import top

        return lambda store: top(store, chosen, make_engine, rows, announce)
    if asked == "outliers" and settings.by == "build":
        from prospect.fleet.build_outliers import build_outliers

        return lambda store: build_outliers(store, chosen, make_engine, rows=rows, fdr=fdr)
    if asked == "outliers":
        from prospect.fleet.outliers import outliers

        return lambda store: outliers(store, chosen, make_engine, rows=rows, fdr=fdr)
    if asked == "deploys":
        from prospect.fleet.deploys import deploys

        return lambda store: deploys(store, chosen, make_engine, rows=rows, fdr=fdr, build=build)
    from prospect.fleet.coverage import coverage

    return lambda store: coverage(store, chosen, make_engine, rows)


def _plain(value: Any) -> Any:
    """Return figures as JSON has them: rows by the names of their fields."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: _plain(each) for name, each in value._asdict().items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, Record):
        return {name: _plain(each) for name, each in contents(value).items()}
    return value


def _csv(answer: Answer, asked: str) -> Iterator[str]:
    import csv
    import io

    rows = getattr(answer, _ROWS[asked])
    if asked == "deploys" and not rows:
        rows = getattr(answer, "builds", [])
    out = io.StringIO()
    writer = csv.writer(out)
    if rows:
        writer.writerow(rows[0]._fields)
    writer.writerows(rows)
    yield out.getvalue()
