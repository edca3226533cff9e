"""Frames that print alike are one row: in tables by object and name, in trees by name."""

from __future__ import annotations

from builders.stacks import stacks_profile
from prospect.figures.calls.calls_view import CallsChoice, calls_view
from prospect.figures.calls.sample_choice import SampleChoice
from prospect.records import replace


def renamed(old, new):
    profile = stacks_profile()
    names = [new if name == old else name for name in profile.functions.name]
    return replace(profile, functions=replace(profile.functions, name=names, linkage_name=names))


def calls_of(profile):
    (event,) = calls_view(profile, CallsChoice(SampleChoice("3"))).events
    labels = [event.graph.labels[row] for row in event.hottest.tolist()]
    totals = event.totals.total_hits.take(event.hottest).tolist()
    tree = event.callees
    rows = [tree.labels[row] for row in tree.frame.tolist()]
    return list(zip(labels, totals, strict=True)), list(zip(rows, tree.hits.tolist(), strict=True))


def test_two_functions_of_one_name_in_one_object():
    totals, tree = calls_of(renamed("", "read"))
    assert [hits for name, hits in totals if name == "read"] == [7]
    assert [hits for name, hits in tree if name == "read"] == [7]


def test_two_of_one_name_in_two_objects_are_two_rows_of_the_table_and_one_of_the_tree():
    totals, tree = calls_of(renamed("jitted", "work"))
    assert sorted(hits for name, hits in totals if name == "work") == [4, 10]
    assert [hits for name, hits in tree if name == "work"][1:] == [14]
