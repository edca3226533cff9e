"""Profiles with turns whose pieces are known."""

import numpy as np

from builders.critical_paths import CHILD, MAIN, MS, OTHER, path_of, profile_of
from prospect.profile.model import (
    PATH_BLOCKED,
    PATH_RAN,
    PATH_WAITED,
    TURN_CUT,
    TURN_WHOLE,
    TurnTable,
)
from prospect.records import replace

# A server asks a database, which reads from a disk: (state, thread, ms, ended by).
REQUEST = [
    (PATH_WAITED, MAIN, 1, -1),
    (PATH_RAN, MAIN, 3, -1),
    (PATH_RAN, OTHER, 4, -1),
    (PATH_BLOCKED, OTHER, 10, 0),
    (PATH_RAN, OTHER, 1, -1),
    (PATH_WAITED, MAIN, 1, -1),
    (PATH_RAN, MAIN, 5, -1),
]
_POLL = 1
_DURING = {OTHER: _POLL, MAIN: -1, CHILD: 0}


def turns_of(requests, kinds=("view",), kind_of=(), cut=0, is_loop=False):
    """Turns of MAIN, one of each request's pieces after another, and some that are cut.

    The first piece of each waits for a CPU that CHILD has.
    """
    pieces = [piece for request in requests for piece in request]
    firsts = np.cumsum([0, *(len(request) for request in requests)])[:-1]
    path = path_of(pieces, [(first, CHILD, pieces[first][2]) for first in firsts.tolist()])
    turn = np.repeat(np.arange(len(requests)), [len(request) for request in requests])
    length_ns = np.bincount(turn, path.length_ns, len(requests)).astype(np.int64)
    count = len(requests) + cut
    begin_ns = np.append(path.begin_ns[firsts], np.full(cut, path.begin_ns[-1] + np.uint64(MS)))
    return TurnTable(
        tid=np.full(count, MAIN, np.int32),
        process_index=np.zeros(count, np.int32),
        begin_ns=begin_ns.astype(np.uint64),
        length_ns=np.append(length_ns, np.full(cut, MS)),
        state=np.array([TURN_WHOLE] * len(requests) + [TURN_CUT] * cut, np.uint8),
        is_loop=np.full(count, is_loop),
        kind_index=np.array(kind_of or [0] * count, np.int32),
        kinds=list(kinds),
        turn_of_piece=turn.astype(np.int32),
        pieces=path,
        during_index=np.array([_DURING[one[1]] for one in pieces], np.int32),
        during=["futex", "poll"],
    )


def profile_with_turns(turns, samples=()):
    """A profile with samples (ms, thread, function "f" or "g") and turns."""
    return replace(profile_of(turns.pieces, samples), wall=None, turns=turns)
