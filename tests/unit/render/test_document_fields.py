"""Lists of fields: what they write, and that documents keep to the schemas made of them."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from builders.json_schema import SCRIPT, schema_errors
from builders.pages import report_of
from builders.profile import perf_profile
from prospect.profile.event_counts import Count, CountedEvent, CountedRun, EventCounts
from prospect.render.json.annotation_documents import ANNOTATION, SOURCE_FILES
from prospect.render.json.calls_document import CALLS
from prospect.render.json.counts_document import COUNTS, counts_json
from prospect.render.json.document_fields import (
    ABSENT,
    COUNT,
    FLAG,
    INDEX,
    NAME,
    NUMBER,
    SECONDS,
    TEXT,
    Mapping,
    Named,
    Object,
    Part,
    Rows,
    document,
    numbered,
)
from prospect.render.json.key_table_documents import CLASS_COLUMNS, SORTED_ROWS

TESTS = Path(__file__).parents[2]
PLACE = Object("place", line=NUMBER.or_null("a line"), file=NAME("a file, or `null`"))
ROW = Object("row", hits=COUNT("samples"), seconds=SECONDS(), place=Part(PLACE, "where"))
TABLE = SimpleNamespace(
    hits=np.array([3, 1]),
    seconds=np.array([0.1234567894, np.nan]),
    where=SimpleNamespace(line=[7, None], file=["a.c", ""]),
)
ROWS = [
    {"hits": 3, "seconds": 0.123456789, "line": 7, "file": "a.c"},
    {"hits": 1, "seconds": None, "line": None, "file": None},
]


def written(of, source):
    return json.loads(b"".join(document(of, source)))


def errors(found, of):
    schema = SCRIPT["schema"](of)
    return schema_errors(found, schema, schema)


def rendered(**options):
    return json.loads(report_of(perf_profile(), "json", detail="4", **options))


def counted():
    events = (CountedEvent("cycles", group=0), CountedEvent("power", "Joules", 0.25))
    counts = (Count(10, 2, 1), Count(0, 1, 0))
    return EventCounts("make", events, (CountedRun(2.0, counts),), ("Not all.",))


@pytest.mark.parametrize("between", [b"", b" ", b"\n"])
@pytest.mark.parametrize("in_pieces", [False, True])
def test_a_document_is_the_same_in_pieces(between, in_pieces):
    of = Object(
        "all",
        between,
        rows=Rows(ROW, by_column=True, in_pieces=in_pieces and bool(between))(get="table"),
        kinds=Rows(numbered(("a", "b")))(),
        by_name=Named(("x", "y"), ROW, "by name")(get="table"),
        absent=TEXT(get=lambda _: ABSENT, optional=True),
        counters=Mapping(NUMBER)(),
        nothing=ROW.or_null(),
        none=Rows(ROW).or_null(get="nothing"),
    )
    source = SimpleNamespace(table=TABLE, kinds=[1, 0], counters={"c": 2.5}, nothing=None)
    assert written(of, source) == {
        "rows": ROWS,
        "kinds": ["b", "a"],
        "by_name": {"x": ROWS[0], "y": ROWS[1]},
        "counters": {"c": 2.5},
        "nothing": None,
        "none": None,
    }


def test_values_are_those_of_python():
    of = Object("one", flag=FLAG(), index=INDEX(), count=COUNT())
    one = SimpleNamespace(flag=np.True_, index=np.int32(-1), count=np.uint64(2**63))
    assert of.convert(one) == {"flag": True, "index": None, "count": 2**63}


def test_a_schema_refuses_what_is_missing_or_more():
    assert errors(ROWS[0], ROW) == []
    assert errors({**ROWS[0], "more": 1}, ROW)
    assert errors({name: value for name, value in ROWS[0].items() if name != "line"}, ROW)


@pytest.mark.parametrize(
    ("name", "of"),
    [
        ("annotation/loop.json", ANNOTATION),
        ("annotation/hostile_code.json", ANNOTATION),
        ("annotation/source.json", SOURCE_FILES),
        ("calls/everything.json", CALLS),
    ],
)
def test_golden_documents_keep_to_their_fields(name, of):
    assert errors(json.loads((TESTS / "golden" / name).read_text()), of) == []


@pytest.mark.parametrize("options", [{"sort": ("pid", "function")}, {"sort": ("mode",)}])
def test_tables_by_keys_keep_to_their_fields(options):
    assert errors(rendered(**options), SORTED_ROWS) == []
    assert errors(rendered(**options, columns="event"), CLASS_COLUMNS) == []


def test_counts_keep_to_their_fields():
    assert errors(json.loads(counts_json(counted())), COUNTS) == []


def test_counts_do_not_wait_for_numpy():
    script = "import sys, prospect.render.json.counts_document; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_every_document_has_a_table_in_the_documentation():
    pages = "".join(page.read_text() for page in (TESTS.parent / "docs").glob("*.md"))
    for of in SCRIPT["DOCUMENTS"]:
        assert f"<!-- fields: {of.name} -->" in pages
