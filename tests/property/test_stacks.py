"""Any chains: the forest against reading each sample's chain one by one."""

from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from builders.kernel_chains import CONTEXT_KERNEL, CONTEXT_USER, chained
from prospect.assembly.stacks import stack_forest as chains_module
from prospect.assembly.stacks.stack_forest import (
    build_stacks,
    caller_addresses,
    distinct_callers,
    without_strays,
)
from prospect.assembly.stacks.user_stacks import UserContexts, UserStacks, no_user_stacks
from prospect.columns.forests import forest_of_lists

KERNEL, USER, GUEST_USER = 1, 2, 5
CONTEXT_GUEST_USER = 2**64 - 2560
UNKNOWN_CONTEXT = 2**64 - 4000
MODES = {CONTEXT_KERNEL: KERNEL, CONTEXT_USER: USER, CONTEXT_GUEST_USER: GUEST_USER}
CONTEXTS = (*MODES, UNKNOWN_CONTEXT)
words = st.sampled_from([0, 1, 4096, 4097, 2**47, 2**63 + 5, *CONTEXTS]) | st.integers(0, 2**64 - 1)
samples = st.lists(
    st.tuples(st.lists(words, max_size=6), st.sampled_from([KERNEL, USER, 0]), st.integers(0, 2)),
    max_size=12,
)


def stack_by_definition(chain, mode, context, ip):
    """(mode, context, address) of each frame from the inside out."""
    frames = [(mode, None, ip)]
    words, current, is_return = list(chain), 0, True
    if len(words) > 1 and MODES.get(words[0]) == mode:
        words, current = words[2:], mode
    for word in words:
        if word > 2**64 - 4096:
            current, is_return = MODES.get(word, 0), False
        else:
            address = word - (is_return and word > 0)
            frames.append((current, context if current == USER else None, address))
            is_return = True
    return frames


def built(drawn):
    """The table of the drawn samples, each sample's row, and the address of each location."""
    chains, modes, contexts = zip(*drawn, strict=True) if drawn else ((), (), ())
    columns = chained(chains, modes)
    nothing = no_user_stacks(len(drawn))
    callers = distinct_callers(columns, np.array(contexts, np.int32), nothing)
    rows = np.arange(3, dtype=np.int32)
    user = UserContexts(np.array(contexts, np.int32), rows, rows + 10, rows + 20)
    addresses, row = caller_addresses(callers, user)
    # Locations are the distinct addresses, then one for each hit.
    hits = SimpleNamespace(
        mode=np.array(modes, np.uint8), sample_row=np.arange(len(drawn), dtype=np.int32)
    )
    hit_location = np.arange(len(drawn), dtype=np.int32) % 4 + len(addresses)
    table, index = build_stacks(callers, row.astype(np.int32), hits, hit_location)
    return columns, addresses, hit_location, table, index


def frames_of(table, row):
    found = []
    while row >= 0:
        found.append((int(table.mode[row]), int(table.location_index[row])))
        caller = int(table.caller_index[row])
        assert table.depth[row] == (table.depth[caller] + 1 if caller >= 0 else 0)
        row = caller
    return found


@given(samples)
def test_each_sample_has_the_stack_of_its_chain(drawn):
    columns, addresses, hit_location, table, index = built(drawn)
    for row, (chain, mode, context) in enumerate(drawn):
        expected = stack_by_definition(chain, mode, context, int(columns.ip[row]))
        found = frames_of(table, int(index[row]))
        assert found[0] == (mode, hit_location[row])
        got = []
        for frame_mode, location in found[1:]:
            is_user = frame_mode == USER
            assert addresses.mode[location] == frame_mode
            assert addresses.epoch[location] == (addresses.space[location] + 10 if is_user else -1)
            space = int(addresses.space[location]) if is_user else None
            got.append((frame_mode, space, int(addresses.address[location])))
        assert got == expected[1:]


@given(samples)
def test_the_table_is_a_forest_of_distinct_stacks(drawn):
    *_, table, index = built(drawn)
    rows = list(zip(table.caller_index, table.location_index, table.mode, strict=True))
    assert len(set(rows)) == len(rows)
    assert (table.caller_index < np.arange(len(table))).all()
    used = set()
    rows_left = set(index.tolist())
    while rows_left:
        used |= rows_left
        rows_left = {int(table.caller_index[row]) for row in rows_left} - {-1}
    assert used == set(range(len(table)))


addresses = st.integers(4096, 4100) | st.integers(1, 2**47)
# Behind a context stands at least the instruction.
kernel_words = st.lists(st.sampled_from([0, 1, 4096, 2**63 + 5]), max_size=4)
unwound_samples = st.lists(
    st.tuples(
        kernel_words | kernel_words.map(lambda found: [CONTEXT_KERNEL, 2**63, *found]),
        st.lists(addresses, min_size=1, max_size=5),
        st.sampled_from([KERNEL, USER, 0]),
        st.booleans(),
    ),
    max_size=12,
)


@given(unwound_samples)
def test_unwound_stacks_are_what_chains_of_their_words_are(drawn):
    chains = [(kernel, [CONTEXT_USER, *user]) for kernel, user, *_ in drawn]
    modes = [mode for *_, mode, _ in drawn]
    places = [[word - (n > 0) for n, word in enumerate(user)] for _, user, *_ in drawn]
    is_unwound = np.array([unwound for *_, unwound in drawn], np.bool_)
    address = np.array(sorted({one for each in places for one in each}), np.uint64)
    values = np.searchsorted(address, np.array([a for each in places for a in each[::-1]], "u8"))
    frames, innermost = forest_of_lists(values, np.array([len(each) for each in places], np.int64))
    stacks = UserStacks(
        frames,
        np.where(is_unwound, innermost, -1).astype(np.int32),
        np.zeros(len(address), np.int32),
        address,
    )
    found = [
        _named(chained([[*kernel, *user] for kernel, user in chains], modes), None),
        # What a recording has of the user part does not count where it was unwound.
        _named(
            chained(
                [
                    [*kernel, *(([CONTEXT_USER, 7, 8] if n % 2 else []) if unwound else user)]
                    for n, ((kernel, user), unwound) in enumerate(
                        zip(chains, is_unwound, strict=True)
                    )
                ],
                modes,
            ),
            stacks,
        ),
    ]
    assert found[0] == found[1]


def _named(samples, stacks, is_nowhere=lambda _: False):
    """The frames of each sample from the inside out: mode, and address; of its own the mode."""
    contexts = np.zeros(len(samples), np.int32)
    callers = distinct_callers(samples, contexts, stacks or no_user_stacks(len(samples)))
    rows = np.zeros(1, np.int32)
    known, row = caller_addresses(callers, UserContexts(contexts, rows, rows, rows))
    nowhere = np.array([is_nowhere(one) for one in known.address.tolist()], np.bool_)
    callers, row = without_strays(callers, row, nowhere)
    hits = SimpleNamespace(mode=samples.mode, sample_row=np.arange(len(samples)))
    table, index = build_stacks(
        callers, row.astype(np.int32), hits, np.full(len(samples), len(known), np.int32)
    )
    address = [*known.address.tolist(), None]
    return [
        [(mode, address[location]) for mode, location in frames_of(table, int(row))]
        for row in index
    ]


def test_an_unwound_stack_ends_before_what_is_in_no_mapping():
    words = [[11, 21, 31, 41], [12, 21, 31, 41], [13, 31, 41], [14, 21], [15]]
    places = [[word - (n > 0) for n, word in enumerate(each)] for each in words]
    address = np.array(sorted({one for each in places for one in each}), np.uint64)
    values = np.searchsorted(address, np.array([a for each in places for a in each[::-1]], "u8"))
    frames, innermost = forest_of_lists(values, np.array([len(each) for each in places]))
    stacks = UserStacks(frames, innermost, np.zeros(len(address), np.int32), address)
    modes = [USER, USER, KERNEL, USER, USER]
    kernel = [[], [], [CONTEXT_KERNEL, 1, 101], [], []]
    found = _named(chained(kernel, modes), stacks, lambda one: one == 30)
    assert found == [
        [(USER, None), (USER, 20)],
        [(USER, None), (USER, 20)],
        [(KERNEL, None), (KERNEL, 100), (USER, 13)],
        [(USER, None), (USER, 20)],
        [(USER, None)],
    ]
    # So do the words of a chain, and all that lies behind them.
    found = _named(chained(kernel, modes), stacks, lambda one: one == 100)
    assert found[2] == [(KERNEL, None)]
    assert found[0] == [(USER, None), (USER, 20), (USER, 30), (USER, 40)]


def test_rows_do_not_depend_on_the_seed_of_the_hash():
    rng = np.random.default_rng(5)
    drawn = [
        ([CONTEXT_USER, 1, *rng.integers(4096, 4100, 5).tolist()], USER, int(rng.integers(3)))
        for _ in range(50)
    ]
    first, second = built(drawn), built(drawn)
    assert (first[4] == second[4]).all()
    assert (first[3].caller_index == second[3].caller_index).all()


def test_what_collides_is_told_apart():
    drawn = [([CONTEXT_USER, 1, 4096 + n], USER, 0) for n in range(3)]
    true_hashes, calls = chains_module._hashes, []

    def colliding(tails, seed):
        calls.append(seed)
        found = true_hashes(tails, seed)
        return np.zeros_like(found) if len(calls) == 1 else found

    with patch.object(chains_module, "_hashes", colliding):
        *_, table, index = built(drawn)
    assert len(calls) == 2
    assert len(set(index.tolist())) == 3
    assert len(table) == 6


def test_a_list_of_callers_ends_before_what_is_in_no_mapping():
    drawn = [
        ([CONTEXT_USER, 1, 101, 102, 103], USER, 0),
        ([CONTEXT_USER, 1, 104, 105], USER, 0),
        ([CONTEXT_USER, 1], USER, 0),
        ([CONTEXT_USER, 1, 102], USER, 0),
    ]
    chains, modes, contexts = zip(*drawn, strict=True)
    columns, nothing = chained(chains, modes), no_user_stacks(len(drawn))
    callers = distinct_callers(columns, np.array(contexts, np.int32), nothing)
    rows = np.arange(1, dtype=np.int32)
    addresses, row = caller_addresses(callers, UserContexts(rows, rows, rows, rows))
    kept, row = without_strays(callers, row, addresses.address == 101)
    found = [
        kept.address[kept.start[c] : kept.start[c + 1]].tolist() for c in kept.of_sample.tolist()
    ]
    assert found == [[100], [103, 104], [], []]
    assert addresses.address.take(row).tolist() == kept.address.tolist()
