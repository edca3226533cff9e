"""Every answer about many hosts says the same in every format: text, page, CSV and JSON."""

from __future__ import annotations

import csv
import functools
import io
import json
import re
from html import unescape

import pytest

from builders.fleet import NEW, canaries, fleet_store
from prospect.cli.main import main
from prospect.fleet.answers import PAGE, QUESTIONS, TERMINAL
from prospect.fleet.asking import Wanted
from prospect.fleet.opening import engine_of
from prospect.store.hosts import HostsDirectory
from prospect.store.specification import Specification
from prospect.web.fleet_pages import FleetQuestion, fleet_page

pytest.importorskip("duckdb")
# What is typed after `prospect fleet`, by the question that it asks.
TYPED = {
    "top": ("top",),
    "outliers": ("outliers",),
    "builds": ("outliers", "--by", "build"),
    "deploys": ("deploys", NEW[:4]),
    "coverage": ("coverage",),
}
FORMATS = ("text", "page", "csv", "json")


@pytest.fixture(name="stores", scope="module")
def _stores(tmp_path_factory):
    root = tmp_path_factory.mktemp("stores")
    every = str(fleet_store(root / "fleet"))
    return dict.fromkeys(QUESTIONS, every) | {"builds": str(canaries(root / "canaries"))}


@functools.cache
def answer_to(name, path):
    build = NEW[:4] if name == "deploys" else ""
    with HostsDirectory(path) as store:
        wanted = Wanted(rows=50, build=build)
        return QUESTIONS[name].ask(store, Specification(), engine_of("local"), wanted)


def tables_of(name, answer, layout):
    return [one for one in QUESTIONS[name].parts(answer, layout) if not isinstance(one, str)]


def shown(name, path, form, capfd):
    if form == "page":
        question = FleetQuestion(name, build=NEW[:4] if name == "deploys" else "")
        with HostsDirectory(path) as store:
            return fleet_page(
                store, Specification(), engine_of("local"), question, "title"
            ).decode()
    assert main(["fleet", *TYPED[name], "--store", path, "--rows", "50", "--format", form]) == 0
    return capfd.readouterr().out


def test_every_question_can_be_typed():
    assert TYPED.keys() == QUESTIONS.keys()


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", QUESTIONS)
def test_each_format_has_the_rows_of_the_answer(name, form, stores, capfd):
    path = stores[name]
    answer, text = answer_to(name, path), shown(name, path, form, capfd)
    tables = tables_of(name, answer, PAGE)
    rows = tables[0].rows
    assert rows
    if form == "json":
        (found,) = (value for value in json.loads(text).values() if value == plain(rows))
        assert [tuple(row) for row in found] == [rows[0]._fields] * len(rows)
    elif form == "csv":
        head, *lines = csv.reader(io.StringIO(text))
        assert head == list(rows[0]._fields)
        assert lines == [list(map(str, row)) for row in rows]
    else:
        layout = TERMINAL if form == "text" else PAGE
        for sentence in QUESTIONS[name].parts(answer, layout):
            if isinstance(sentence, str):
                assert sentence in unescape(text)
        for table in tables_of(name, answer, layout):
            columns = table.columns_on(layout)
            shown_rows = table.rows[: table.most]
            found = cells_of_text(text, columns) if form == "text" else cells_of_page(text, columns)
            assert len(found) >= len(shown_rows)
            for row, cells in zip(shown_rows, found, strict=False):
                for column in columns:
                    cell = column.cell(row)
                    if isinstance(cell, str):
                        said = column.brief(cell) if form == "text" else cell
                        assert said in cells


def plain(rows):
    return [row._asdict() for row in rows]


def cells_of_text(text, columns):
    """Return the lines below the one with these titles."""
    pattern = r"\s+".join(re.escape(one.title) for one in columns if one.title)
    lines = text.splitlines()
    (head,) = (at for at, line in enumerate(lines) if re.fullmatch(rf"\s*{pattern}\s*", line))
    return lines[head + 1 :]


def cells_of_page(text, columns):
    """Return the cells of the rows of the table with these titles."""
    for table in re.findall(r"<table>.*?</table>", text):
        titles = [unescape(one) for one in re.findall(r"<th [^>]*>(.*?)</th>", table)]
        if titles == [one.title for one in columns]:
            return [
                [unescape(re.sub("<[^>]*>", "", cell)) for cell in re.findall("<td.*?</td>", row)]
                for row in re.findall("<tr>(?=<td).*?</tr>", table)
            ]
    raise AssertionError(titles)
