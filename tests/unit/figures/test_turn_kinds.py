"""Kinds of turns of programs whose stacks are known."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from prospect.figures import find_turns as module
from prospect.figures.find_turns import OTHER_TURNS, StacksOfTurns, turn_kinds
from prospect.figures.stacks.frames import NamedForest

IDLE = "main loop wait"


class Program:
    """Turns as lists of (stack, weight, is_wait), outermost first; "own:" is the user's code."""

    def __init__(self, turns, idle=IDLE):
        names, rows, leaf = {}, {}, {}
        stacks = [idle, *(stack for turn in turns for stack, _, _ in turn)]
        for stack in stacks:
            row = -1
            for name in stack.split():
                row = rows.setdefault((row, names.setdefault(name, len(names))), len(rows))
            leaf[stack] = row
        callers = [caller for caller, _ in rows]
        depth = []
        for caller in callers:
            depth.append(0 if caller < 0 else depth[caller] + 1)
        count = len(turns)
        self.forest = NamedForest(
            np.array(callers), np.array([f for _, f in rows]), np.array(depth), np.arange(len(rows))
        )
        self.is_own = np.array([name.startswith("own:") for name in names])
        self.stacks = StacksOfTurns(
            *(
                np.array(column)
                for column in zip(
                    *(
                        (number, leaf[stack], weight, is_wait)
                        for number, turn in enumerate(turns)
                        for stack, weight, is_wait in turn
                    ),
                    strict=True,
                )
            )
        )
        idle_rows = np.full(count, leaf[idle])
        self.blocked = SimpleNamespace(
            forest=SimpleNamespace(labels=[name.removeprefix("own:") for name in names]),
            own_forest=self.forest,
            user_stacks=SimpleNamespace(user_row=np.arange(len(rows))),
            stack_row=idle_rows,
            rows=np.arange(count),
            name=np.zeros(count, np.int64),
            names=["epoll_wait"],
        )

    def kinds(self, monkeypatch, lengths=None):
        labels = self.blocked.forest.labels

        def trees(_):
            is_plain = np.array([not module.is_start(name) for name in labels])
            yield module._Tree(self.forest, labels, self.is_own & is_plain), module._LEAST_OWN
            yield module._Tree(self.forest, labels, is_plain), module._LEAST_KNOWN

        monkeypatch.setattr(module, "_trees", trees)
        count = len(self.blocked.rows)
        group = np.zeros(count, np.int64)
        length_ns = np.array(lengths or [1000] * count)
        found = turn_kinds(self.stacks, self.blocked, np.arange(count), group, length_ns)
        return [found.names[one] for one in found.of_turn.tolist()]


def waits(*stacks):
    return [(stack, 1000, True) for stack in stacks]


def test_views_of_the_users_own_code_are_kinds(monkeypatch):
    books, report = "main loop handle own:books query", "main loop handle own:report execute"
    turns = [waits(books, books), waits(report)] * 10
    assert Program(turns).kinds(monkeypatch) == ["books", "report"] * 10


def test_functions_of_one_turn_one_after_another_are_one_kind(monkeypatch):
    view = "main loop handle own:view own:"
    turns = [
        [(f"{view}parse", 10 + turn % 2, True), (f"{view}save", 10 + (turn + 1) % 2, True)]
        for turn in range(20)
    ]
    assert Program(turns).kinds(monkeypatch) == ["view"] * 20


def test_without_own_code_a_kind_is_the_first_function_that_is_not_idle(monkeypatch):
    turns = [waits("main loop exec_query read")] * 10
    assert Program(turns).kinds(monkeypatch) == ["exec_query"] * 10


def test_samples_alone_tell_only_where_a_turn_has_several(monkeypatch):
    one, other = "main loop handle first a", "main loop handle second b"
    single = [[(one, 10, False)], [(other, 10, False)]] * 10
    assert set(Program(single).kinds(monkeypatch)) == {"handle"}
    several = [[(one, 10, False)] * 2, [(other, 10, False)] * 2] * 10
    assert Program(several).kinds(monkeypatch) == ["first", "second"] * 10


def test_turns_without_a_stack_are_others_or_of_the_call_before(monkeypatch):
    turns = [waits("main loop own:view query")] * 8 + [waits("main")] * 4
    assert Program(turns).kinds(monkeypatch) == ["view"] * 8 + [OTHER_TURNS] * 4
    few = [waits("main loop exec_query read")] * 3 + [waits("main")] * 9
    assert Program(few).kinds(monkeypatch) == ["after epoll_wait"] * 12


def test_short_turns_without_a_stack_do_not_count(monkeypatch):
    turns = [waits("main loop own:view query")] * 5 + [waits("main")] * 95
    kinds = Program(turns).kinds(monkeypatch, [10_000] * 5 + [10] * 95)
    assert kinds == ["view"] * 5 + [OTHER_TURNS] * 95


def test_a_few_turns_in_a_function_of_their_own_are_no_kind(monkeypatch):
    turns = [waits("main loop own:view query")] * 98 + [waits("main loop own:rare query")] * 2
    assert Program(turns).kinds(monkeypatch) == ["view"] * 98 + [OTHER_TURNS] * 2


def test_programs_begin_in_functions_that_name_nothing(monkeypatch):
    one, other = "_bootstrap own:first a", "main own:second b"
    turns = [waits(one), waits(other)] * 10
    assert Program(turns).kinds(monkeypatch) == ["first", "second"] * 10
