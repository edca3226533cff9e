"""What a page may ask: numbers within bounds, and nothing else."""

import pytest

from prospect.render.html.cells import Selection
from prospect.web.page_queries import QueryError, code_query, hits_query, part_query


def test_a_selection_is_read():
    query = "event=1&begin_ns=5&end_ns=9&scope=process&process=3&cpu=2&path=7.8.9&search=a%20b"
    assert part_query(query) == (
        1,
        Selection(
            begin_ns=5,
            end_ns=9,
            scope="process",
            process=3,
            cpu=2,
            path=(7, 8, 9),
            search="a b",
        ),
    )


def test_nothing_selects_everything():
    assert part_query("") == (0, Selection())
    assert part_query("by_time=1&path=&search=")[1] == Selection(is_by_time=True)


def test_a_function_is_read():
    assert code_query("event=0&frame=12") == (0, 12)


@pytest.mark.parametrize(
    "query",
    [
        "event=-1",
        "event=1e3",
        "event=" + "9" * 19,
        "event=٣",
        "begin_ns=0x10",
        "cpu=",
        "scope=mine",
        "path=1..2",
        "path=" + "1." * 5000 + "1",
        "search=" + "a" * 257,
        "colour=red",
        "colour=1",
        "&".join(f"event={n}" for n in range(20)),
    ],
)
def test_anything_else_is_refused(query):
    with pytest.raises(QueryError):
        part_query(query)


def test_hits_of_a_function_are_read():
    query = "event=1&frame=7&begin_ns=5&end_ns=9&scope=command&thread=3"
    selection = Selection(begin_ns=5, end_ns=9, scope="command", thread=3)
    assert hits_query(query) == (1, 7, selection)
    assert hits_query("event=0&frame=0") == (0, 0, Selection())


HALVES = ["", "event=0", "frame=1", "event=0&frame=1&x=1", "event=0&frame=x"]


@pytest.mark.parametrize("query", HALVES)
def test_half_a_question_for_code_is_refused(query):
    with pytest.raises(QueryError):
        code_query(query)


@pytest.mark.parametrize(
    "query", [*HALVES, "event=0&frame=1&scope=mine", "event=0&frame=1&path=1", "frame=1&cpu=2"]
)
def test_half_a_question_for_hits_is_refused(query):
    with pytest.raises(QueryError):
        hits_query(query)
