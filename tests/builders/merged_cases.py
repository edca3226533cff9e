"""All cases of a parametrized test as one test, if nothing is set up for each of them.

Thousands of cases take less than a millisecond each, and several to be collected by each worker,
run and reported. `scripts/check` merges them. By hand each case is a test, which can be chosen.
"""

from __future__ import annotations

import inspect
from itertools import product

import pytest


def pytest_addoption(parser):
    parser.addoption(
        "--merge-cases", action="store_true", help="run all cases of a test as one test"
    )


def pytest_pycollect_makeitem(collector, name, obj):
    """Return one test for a function without fixtures, None for pytest's test for each case."""
    if not collector.config.option.merge_cases or not isinstance(collector, pytest.Module):
        return None
    marks = getattr(obj, "pytestmark", ())
    tables = [mark for mark in marks if mark.name == "parametrize"]
    if not tables or len(tables) < len(marks) or not inspect.isfunction(obj):
        return None  # what else is marked is left alone
    if not collector.funcnamefilter(name) or any(collector.iter_markers("live")):
        return None
    cases = _cases(tables)
    if cases is None or {*inspect.signature(obj).parameters} != {*cases[0]}:
        return None
    item = pytest.Function.from_parent(collector, name=name, callobj=_merged(obj, cases))
    return None if item.fixturenames else [item]  # one that is used automatically


def _cases(tables):
    """Return the values of each case by name, None if one has marks or goes to a fixture."""
    columns = []
    for table in tables:
        names, values = table.args
        if not hasattr(values, "__len__"):  # pytest will go through it
            return None
        names = names.replace(" ", "").split(",") if isinstance(names, str) else names
        rows = [_plain(value, len(names)) for value in values]
        if table.kwargs.keys() - {"ids"} or not rows or any(row is None for row in rows):
            return None
        columns.append([dict(zip(names, row, strict=True)) for row in rows])
    return [{name: part[name] for part in parts for name in part} for parts in product(*columns)]


def _plain(value, count):
    """Return the values of a row of a table, None if it has marks."""
    if hasattr(value, "marks"):  # of pytest.param
        return None if value.marks else value.values
    return (value,) if count == 1 else value


def _merged(test, cases):
    def of_all():
        skipped = []
        for case in cases:
            try:
                test(**case)
            except pytest.skip.Exception as reason:
                skipped.append(reason)
            except BaseException as error:
                error.add_note(f"the case is {case!r}")
                raise
        if len(skipped) == len(cases):
            raise skipped[0]

    of_all.__doc__ = test.__doc__
    return of_all
