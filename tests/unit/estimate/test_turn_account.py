"""The account of turns: pieces, samples and lengths with known sums."""

import pytest

from builders.critical_paths import MAIN, OTHER
from builders.turns import REQUEST, profile_with_turns, turns_of
from prospect.estimate.finished_report import Report
from prospect.estimate.wall_account import NO_SAMPLE, Taker
from prospect.profile.model import PATH_RAN, TURN_UNCLEAR

OWN, THREAD, PROCESS = "own thread", "other thread", "other process"


def account_of(turns, samples=(), detail="3"):
    with Report(profile_with_turns(turns, samples), detail) as report:
        return report.turns


def rows_of(kind):
    return {(row.state, row.program, row.thread, row.during, row.what): row for row in kind.rows}


def test_pieces_add_up_across_processes():
    (kind,) = account_of(turns_of([REQUEST] * 4)).kinds
    assert (kind.program, kind.kind, kind.turns, kind.threads) == ("shell", "view", 4, 1)
    assert kind.seconds == pytest.approx(4 * 0.025)
    assert kind.mean_s == pytest.approx(0.025)
    rows = rows_of(kind)
    seconds = {key: row.seconds / kind.turns for key, row in rows.items()}
    assert seconds == {
        ("waiting for a CPU", "shell", OWN, "", ""): pytest.approx(0.002),
        ("running", "shell", OWN, "", NO_SAMPLE): pytest.approx(0.008),
        ("running", "server", PROCESS, "poll", NO_SAMPLE): pytest.approx(0.005),
        ("blocked", "server", PROCESS, "poll", "unknown reason"): pytest.approx(0.010),
    }
    assert sum(row.share for row in kind.rows) == pytest.approx(1)
    assert sum(row.seconds for row in kind.rows) == pytest.approx(kind.seconds, rel=1e-3)


def test_samples_divide_the_time_of_each_process_apart():
    samples = [(1.5, MAIN, "f"), (2.5, MAIN, "f"), (21, MAIN, "f"), (22, MAIN, "g")]
    # Not within a piece of the thread: while it waits, and after the turn.
    samples += [(5, OTHER, "g"), (10, OTHER, "f"), (0.5, MAIN, "g"), (30, MAIN, "g")]
    (kind,) = account_of(turns_of([REQUEST]), samples).kinds
    rows = rows_of(kind)
    own = rows["running", "shell", OWN, "", "f"]
    assert own.seconds == pytest.approx(0.006)
    assert own.samples == 3
    assert 0 < own.half_width_s < 0.006
    assert rows["running", "shell", OWN, "", "g"].seconds == pytest.approx(0.002)
    assert rows["running", "server", PROCESS, "poll", "g"].seconds == pytest.approx(0.005)


def test_a_piece_that_is_in_two_turns_has_its_samples_in_both():
    turns = turns_of([[(PATH_RAN, OTHER, 10, -1)], [(PATH_RAN, OTHER, 10, -1)]])
    turns.pieces.begin_ns[1] = turns.pieces.begin_ns[0]
    (kind,) = account_of(turns, [(5, OTHER, "f")]).kinds
    (row,) = kind.rows
    assert (row.what, row.pieces, row.seconds) == ("f", 2, pytest.approx(0.020))


def test_kinds_are_apart_and_those_with_most_time_are_first():
    longer = [(PATH_RAN, MAIN, 100, -1)]
    turns = turns_of([REQUEST, longer, REQUEST], ("view", "report"), (0, 1, 0))
    kinds = account_of(turns).kinds
    assert [(kind.kind, kind.turns) for kind in kinds] == [("report", 1), ("view", 2)]
    assert kinds[0].longest_s == pytest.approx(0.1)
    assert kinds[1].median.value == pytest.approx(0.025)


def test_who_had_the_cpu_is_of_the_kind():
    (kind,) = account_of(turns_of([REQUEST] * 2)).kinds
    assert kind.takers == (Taker("child", True, pytest.approx(0.002)),)


def test_turns_that_are_cut_or_unclear_are_counted_only():
    turns = turns_of([REQUEST] * 3, cut=2)
    turns.state[0] = TURN_UNCLEAR
    account = account_of(turns)
    assert (account.cut, account.unclear) == (2, 1)
    (kind,) = account.kinds
    assert (kind.turns, kind.seconds) == (2, pytest.approx(0.050))


def test_turns_of_processes_that_are_not_asked_for_are_left_out():
    turns = turns_of([REQUEST])
    turns.process_index[:] = 2
    assert account_of(turns, detail="3") is None
    (kind,) = account_of(turns, detail="4").kinds
    assert kind.program == "server"
