"""Which object a hit is in: by mode, by mapping, by what identifies a file."""

from __future__ import annotations

import itertools

import numpy as np

from builders.sideband import EventLog
from prospect.abi import constants as abi
from prospect.abi.recorded_facts import BuildId, RecordingInfo
from prospect.assembly.placing.jit import JitRecords
from prospect.assembly.placing.location_names import recorded_facts
from prospect.assembly.placing.placement import _FIXED_KEYS, Placement, place
from prospect.profile.model import KIND_ANON, KIND_ELF
from prospect.spaces.attribution import attribute
from prospect.spaces.process_history import build_spaces

CODE = 0x400000


def placed(log, *build_ids):
    events = log.events()
    history = build_spaces(events)
    return place(
        attribute(events.samples, history.timeline), history, RecordingInfo(build_ids=build_ids)
    )


def where(placement):
    rows = zip(placement.object_index.tolist(), placement.address.tolist(), strict=True)
    return sorted((placement.keys[row].path, address) for row, address in rows)


def test_the_mode_decides_where_no_mapping_does():
    log = EventLog()
    modes = (
        (abi.PERF_RECORD_MISC_CPUMODE_UNKNOWN, b"[unknown]"),
        (abi.PERF_RECORD_MISC_KERNEL, b"[kernel.kallsyms]"),
        (abi.PERF_RECORD_MISC_USER, b"[unknown]"),
        (abi.PERF_RECORD_MISC_HYPERVISOR, b"[hypervisor]"),
        (abi.PERF_RECORD_MISC_GUEST_KERNEL, b"[guest]"),
        (abi.PERF_RECORD_MISC_GUEST_USER, b"[guest]"),
        (6, b"[unknown]"),
    )
    for mode, _ in modes:
        log.sample(5, 10, 0x100 + mode, mode=mode)
    assert where(placed(log)) == sorted((path, 0x100 + mode) for mode, path in modes)


def test_modules_are_where_the_recording_placed_them():
    log = EventLog()
    kernel, module = abi.PERF_RECORD_MISC_KERNEL, 0xFFFFFFFFC0100000
    text = 0xFFFFFFFF81000000
    log.mmap(0, -1, text, 0x3FFFFFFF, b"[kernel.kallsyms]_text", pgoff=text, mode=kernel)
    path = b"/lib/modules/5.4.0/kernel/drivers/net/wireless/ath9k-common.ko.xz"
    log.mmap(0, -1, module, 0x4000, path, mode=kernel)
    log.mmap(0, -1, module + 0x4000, 0x4000, b"[mac80211]", mode=kernel)
    guest = abi.PERF_RECORD_MISC_GUEST_KERNEL
    log.mmap(0, -1, module + 0x8000, 0x4000, b"[kvm]", mode=guest)
    for offset in (0, 0x3FFF, 0x4000, 0x8000):
        log.sample(5, 10, module + offset, mode=kernel)
    log.sample(5, 10, text + 8, mode=kernel)
    assert where(placed(log)) == [
        (b"[ath9k_common]", module),
        (b"[ath9k_common]", module + 0x3FFF),
        (b"[kernel.kallsyms]", text + 8),
        (b"[kernel.kallsyms]", module + 0x8000),
        (b"[mac80211]", module + 0x4000),
    ]


def test_the_vsyscall_page_needs_no_mapping():
    log = EventLog()
    log.sample(5, 10, 0xFFFFFFFFFF600400)
    assert where(placed(log)) == [(b"[vsyscall]", 0xFFFFFFFFFF600400)]


def test_addresses_of_files_are_offsets_and_those_of_memory_are_not():
    log = EventLog()
    log.mmap(1, 10, CODE, 0x1000, b"/bin/program", pgoff=0x3000)
    log.mmap(2, 10, CODE + 0x1000, 0x1000, b"//anon", pgoff=CODE)
    log.sample(5, 10, CODE + 8)
    log.sample(5, 10, CODE + 0x1008)
    assert where(placed(log)) == [(b"//anon", CODE + 0x1008), (b"/bin/program", 0x3008)]


def test_memory_is_a_process_own_and_files_are_shared():
    log = EventLog()
    for pid in (10, 11):
        log.mmap(1, pid, CODE, 0x1000, b"/bin/program", inode=5)
        log.mmap(2, pid, CODE + 0x1000, 0x1000, b"//anon")
        log.sample(5, pid, CODE)
        log.sample(5, pid, CODE + 0x1000)
    placement = placed(log)
    kinds = [placement.keys[row].kind for row in np.unique(placement.object_index).tolist()]
    assert sorted(kinds) == [KIND_ELF, KIND_ANON, KIND_ANON]


def test_memory_is_of_one_of_the_programs_that_a_process_ran_and_of_its_forks():
    """A fork has its parent's memory, and a map file of its own number unless it runs another."""
    log = EventLog()
    log.exec(1, 10, b"jit")
    log.mmap(2, 10, CODE, 0x1000, b"//anon")
    log.fork(3, 10, 11)
    log.fork(3, 10, 12)
    for pid in (10, 11, 12):
        log.sample(4, pid, CODE)
    for pid in (10, 11):
        log.exec(5, pid, b"jit")
    log.mmap(6, 10, CODE, 0x1000, b"//anon")
    log.sample(7, 10, CODE)
    placement = placed(log)
    rows = np.unique(placement.object_index).tolist()
    lives = {placement.keys[row].life: set(placement.pids[row]) for row in rows}
    assert lives[0] == {10}
    assert 11 not in lives[1]
    assert 10 in lives[1]
    starts = recorded_facts(RecordingInfo(), JitRecords(log.events()), build_spaces(log.events()))
    assert starts.starts_of(10) == [5, 1, 0]


def test_a_part_of_a_session_knows_when_programs_from_before_it_began():
    log = EventLog()
    log.comm(0, 10, b"jit")
    log.sample(9, 10, CODE)
    info = RecordingInfo(extras={"program_starts": {"10": 7, "11": "x"}, "started_at": 2.0})
    facts = recorded_facts(info, JitRecords(log.events()), build_spaces(log.events()))
    assert facts.starts_of(10) == [7]
    assert list(facts.starts_of(11)) == []
    assert facts.epoch_ns == 2_000_000_000 - 9


def test_one_build_id_of_a_path_stands_for_the_inode():
    log = EventLog()
    log.mmap(1, 10, CODE, 0x1000, b"/bin/program", inode=5)
    log.sample(5, 10, CODE)
    key = placed(log, BuildId(b"/bin/program", b"\x01" * 20)).keys[-1]
    assert (key.build_id, key.inode) == (b"\x01" * 20, 0)


def test_two_build_ids_of_a_path_say_nothing_and_an_empty_one_is_none():
    log = EventLog()
    log.mmap(1, 10, CODE, 0x1000, b"/bin/program", inode=5)
    log.mmap(1, 10, CODE + 0x1000, 0x1000, b"//anon")
    log.sample(5, 10, CODE)
    log.sample(5, 10, CODE + 0x1000)
    several = [BuildId(b"/bin/program", bytes([n]) * 20) for n in (1, 2)]
    nothing = [BuildId(b"/bin/program", bytes(20)), BuildId(b"//anon", b"")]
    for build_ids in (several, nothing):
        file, memory = placed(log, *build_ids).keys[-2:]
        assert (file.build_id, file.inode, memory.kind) == (b"", 5, KIND_ANON)


def test_places_are_sorted_whatever_their_addresses():
    rng = np.random.default_rng(1)
    for high in (1 << 20, 1 << 64):
        objects = rng.integers(0, 3, 500).astype(np.int32)
        address = rng.integers(0, high, 500, np.uint64)
        placement = Placement([], [], objects, address, np.full(500, -1))
        order, starts = placement.sorted_places()
        pairs = list(zip(objects[order].tolist(), address[order].tolist(), strict=True))
        assert [row for row, _ in pairs] == sorted(objects.tolist())
        assert len(set(pairs)) == 1 + sum(
            first != second for first, second in itertools.pairwise(pairs)
        )
        assert objects[order[starts]].tolist() == [0, 1, 2]


def remapping(*maps):
    """Place a hit in the middle of anonymous memory among mappings (start, length, name, pgoff)."""
    log = EventLog()
    for time, (start, length, name, pgoff) in enumerate(maps, 1):
        log.mmap(time, 10, CODE + start, length, name, pgoff=pgoff)
    log.sample(50, 10, CODE + 0x2008)
    return where(placed(log))


def test_a_copy_of_the_executables_code_is_the_executable():
    program, copy = b"/bin/program", (0x2000, 0x1000, b"//anon", 0)
    assert remapping((0, 0x4000, program, 0x3000), copy) == [(program, 0x5008)]
    # A snapshot has what is left of the executable on both sides.
    left, right = (0, 0x2000, program, 0x3000), (0x3000, 0x1000, program, 0x6000)
    assert remapping(left, copy, right) == [(program, 0x5008)]


def test_memory_beside_or_in_the_place_of_a_library_is_no_copy():
    program, copy = b"/bin/program", (0x2000, 0x1000, b"//anon", 0)
    anonymous = [(b"//anon", CODE + 0x2008)]
    assert remapping((0, 0x2000, program, 0x3000), copy) == anonymous
    other = (0x3000, 0x1000, program, 0x9000)  # as far apart in memory as no one image is
    assert remapping((0, 0x2000, program, 0x3000), copy, other) == anonymous
    first = (0x100000, 0x1000, program, 0)
    assert remapping(first, (0, 0x4000, b"/lib/closed.so", 0), copy) == anonymous


def asked_of(log, *, answer=True):
    """Place hits where the recording has one build id for /lib/c.so; return the keys, and asked."""
    events = log.events()
    history = build_spaces(events)
    asked = []

    def is_other(key, *, is_only):
        asked.append((key.inode, key.build_id, is_only))
        return answer

    info = RecordingInfo(build_ids=(BuildId(b"/lib/c.so", b"\x01" * 20),))
    placement = place(attribute(events.samples, history.timeline), history, info, is_other)
    return placement.keys[len(_FIXED_KEYS) :], asked


def test_a_file_known_to_be_another_keeps_its_inode():
    log = EventLog()
    log.mmap(1, 10, CODE, 0x1000, b"/lib/c.so", inode=5)
    log.sample(5, 10, CODE)
    (key,), asked = asked_of(log)
    assert (key.build_id, key.inode) == (b"", 5)
    assert asked == [(5, b"\x01" * 20, True)]


def test_a_path_with_two_files_is_told_from_one_with_one_even_if_only_one_was_hit():
    log = EventLog()
    for pid, inode in ((10, 5), (11, 6)):
        log.mmap(1, pid, CODE, 0x1000, b"/lib/c.so", inode=inode)
    log.sample(5, 10, CODE)
    (key,), asked = asked_of(log, answer=False)
    assert (key.build_id, key.inode) == (b"\x01" * 20, 0)
    assert asked == [(5, b"\x01" * 20, False)]


def read_files(*rows):
    """Return the document of what the recorder read: (inode, since, until, build id)."""
    inode, since_ns, until_ns, build_id = zip(*rows, strict=True)
    return {
        "interval_ns": [100_000_000, 900_000_000],
        "mapped_files": {
            "major": [0] * len(rows),
            "minor": [0] * len(rows),
            "inode": list(inode),
            "since_ns": list(since_ns),
            "until_ns": list(until_ns),
            "build_id": [one.hex() for one in build_id],
        },
    }


def test_a_file_has_the_build_id_that_was_read_of_it_when_it_was_mapped():
    first, second, ms = b"\x01" * 20, b"\x02" * 20, 1_000_000
    extras = read_files((5, 0, 300 * ms, first), (5, 500 * ms, 800 * ms, second))
    found = {}
    for at_ms in (0, 200, 400, 600, 850):  # 0: found by the snapshot
        log = EventLog()
        log.mmap(at_ms * ms, 10, CODE, 0x1000, b"/bin/program", inode=5)
        log.sample(900 * ms, 10, CODE)
        events = log.events()
        history = build_spaces(events)
        info = RecordingInfo(extras=extras)
        key = place(attribute(events.samples, history.timeline), history, info).keys[-1]
        found[at_ms] = key.build_id
    assert found == {0: first, 200: first, 400: b"", 600: second, 850: b""}


def test_what_anybody_may_have_written_of_mapped_files_does_no_harm():
    log = EventLog()
    log.mmap(1, 10, CODE, 0x1000, b"/bin/program", inode=5)
    log.sample(5, 10, CODE)
    events = log.events()
    history = build_spaces(events)
    good = read_files((5, 0, 10**18, b"\x01" * 20))["mapped_files"]
    for spoiled in (None, [], {}, good | {"inode": ["x"]}, good | {"build_id": ["xyz"]}):
        info = RecordingInfo(extras={"interval_ns": "x", "mapped_files": spoiled})
        key = place(attribute(events.samples, history.timeline), history, info).keys[-1]
        assert (key.build_id, key.inode) == (b"", 5)
