"""The mappings of a process that no hit is in."""

from __future__ import annotations

import base64
import zlib

from builders.sideband import EventLog
from prospect.assembly.tables.process_table import UnhitMappings
from prospect.spaces.attribution import attribute
from prospect.spaces.process_history import build_spaces

JITDUMP = b"[jitdump] /tmp/jit-2.dump"


def maps_of(log, extras=None):
    """Return the world of a recording, and its unhit mappings."""
    events = log.events()
    history = build_spaces(events)
    hits = attribute(events.samples, history.timeline)
    located = history.address_spaces.locate(hits.space, hits.epoch, hits.address)
    return history, UnhitMappings(history, hits.process_row, located, extras or {})


def read_maps(*read):
    """Return what a recorder keeps of (pid, time, text)."""
    pids, times, texts = zip(*read, strict=True)
    packed = base64.b64encode(zlib.compress(b"".join(texts))).decode()
    columns = {"pid": [*pids], "read_ns": [*times], "size_bytes": [*map(len, texts)]}
    return {"memory_maps": columns | {"zlib": packed}}


def unhit(log):
    """What `UnhitMappings` says by pid and name of process: (path, start, end, pgoff) a mapping."""
    history, maps = maps_of(log)
    found = {}
    for row, (pid, name) in enumerate(
        zip(history.processes.pid.tolist(), history.processes.name.tolist(), strict=True)
    ):
        each = maps(row)
        assert each.hits.tolist() == [0] * len(each)
        assert each.read_ns is None
        assert not each.is_data.any()
        found[pid, history.names[name].decode()] = list(
            zip(each.path, each.start.tolist(), each.end.tolist(), each.pgoff.tolist(), strict=True)
        )
    assert len(maps(len(found))) == 0
    return found


def test_a_process_without_hits_has_the_whole_map_that_it_ended_with():
    log = EventLog()
    log.comm(0, 2, b"dd")
    log.mmap(0, 2, 0x7000, 0x2000, b"/lib/libc.so", pgoff=0x3000)
    log.mmap(0, 2, 0x1000, 0x1000, b"/bin/dd")
    log.mmap(5, 2, 0x5000, 0x1000, b"/lib/gone.so")
    log.mmap(9, 2, 0x5000, 0x1000, b"/lib/plugin.so")
    assert unhit(log) == {
        (2, "dd"): [
            ("/bin/dd", 0x1000, 0x2000, 0),
            ("/lib/plugin.so", 0x5000, 0x6000, 0),
            ("/lib/libc.so", 0x7000, 0x9000, 0x3000),
        ]
    }


def test_what_was_hit_is_left_to_the_table_of_hits():
    log = EventLog()
    log.comm(0, 2, b"dd")
    log.mmap(0, 2, 0x1000, 0x1000, b"/bin/dd")
    log.mmap(0, 2, 0x7000, 0x1000, b"/lib/libc.so")
    log.sample(1, 2, 0x7800)
    assert unhit(log) == {(2, "dd"): [("/bin/dd", 0x1000, 0x2000, 0)]}


def test_a_child_has_what_its_parent_had_as_it_forked_and_a_program_only_its_own():
    log = EventLog()
    log.comm(0, 1, b"shell")
    log.mmap(0, 1, 0x1000, 0x1000, b"/bin/shell")
    log.fork(10, 1, 2)
    log.mmap(20, 1, 0x5000, 0x1000, b"/lib/later.so")
    log.mmap(30, 2, 0x8000, 0x1000, b"/lib/own.so")
    log.fork(40, 1, 3)
    log.exec(50, 3, b"dd")
    log.mmap(51, 3, 0x3000, 0x1000, b"/bin/dd")
    log.exit(60, 3)
    found = unhit(log)
    own = ("/bin/shell", 0x1000, 0x2000, 0)
    assert found[2, "shell"] == [own, ("/lib/own.so", 0x8000, 0x9000, 0)]
    assert found[1, "shell"] == [own, ("/lib/later.so", 0x5000, 0x6000, 0)]
    assert found[3, "shell"] == [own, ("/lib/later.so", 0x5000, 0x6000, 0)]
    assert found[3, "dd"] == [("/bin/dd", 0x3000, 0x4000, 0)]


def test_what_is_left_of_a_mapping_begins_further_inside_its_file():
    log = EventLog()
    log.comm(0, 2, b"p")
    log.mmap(0, 2, 0x1000, 0x3000, b"/wide", pgoff=0x10000)
    log.mmap(10, 2, 0x2000, 0x1000, b"/narrow")
    assert unhit(log)[2, "p"] == [
        ("/wide", 0x1000, 0x2000, 0x10000),
        ("/narrow", 0x2000, 0x3000, 0),
        ("/wide", 0x3000, 0x4000, 0x12000),
    ]


def test_code_of_a_jitdump_file_is_one_row_and_none_where_some_of_it_was_hit():
    log = EventLog()
    for pid in (2, 3):
        log.comm(0, pid, b"java")
        for piece in range(50):
            log.mmap(piece, pid, 0x1000 + 0x80 * piece, 0x40, JITDUMP)
    log.sample(60, 3, 0x1010)
    assert unhit(log) == {
        (2, "java"): [(JITDUMP.decode(), 0x1000, 0x1000 + 0x80 * 49 + 0x40, 0)],
        (3, "java"): [],
    }


def test_a_kernel_thread_has_no_mappings_whoever_else_has():
    log = EventLog()
    log.comm(0, 9, b"kworker")
    assert unhit(log) == {(9, "kworker"): []}
    log.mmap(0, 2, 0x1000, 0x1000, b"/bin/p")
    assert unhit(log)[9, "kworker"] == []


def test_ten_thousand_children_that_map_nothing_cost_a_look_up_each():
    log = EventLog()
    log.comm(0, 1, b"server")
    log.mmap(0, 1, 0x1000, 0x1000, b"/bin/server")
    for child in range(10_000):
        log.fork(10 + child, 1, 100 + child)
    found = unhit(log)
    assert len(found) == 10_001
    assert set(map(tuple, found.values())) == {(("/bin/server", 0x1000, 0x2000, 0),)}


TEXT = b"""\
00000000-00001000 ---p 00000000 00:00 0\x20
00001000-00002000 r-xp 00000000 08:01 7 /bin/dd
00002000-00003000 rw-p 00001000 08:01 7 /bin/dd
00005000-00006000 rwxp 00000000 00:00 0\x20
00007000-00009000 r-xp 00003000 08:01 8 /lib/libc.so
00010000-00031000 rw-p 00000000 00:00 0 [heap]
"""


def test_a_map_that_was_read_adds_what_no_record_tells_of():
    log = EventLog()
    log.comm(0, 2, b"sh")
    log.exec(10, 2, b"dd")
    log.mmap(11, 2, 0x1000, 0x1000, b"/bin/dd")
    log.mmap(12, 2, 0x7000, 0x1800, b"/lib/libc.so", pgoff=0x3000)
    log.mmap(90, 2, 0x20000, 0x1000, b"/lib/late.so")
    log.sample(95, 2, 0x7800)
    history, maps = maps_of(log, read_maps((2, 5, TEXT[:200]), (2, 50, TEXT)))
    before, after = (maps(row) for row in range(len(history.processes.pid)))
    assert before.read_ns == 5
    assert after.read_ns == 50
    found = zip(after.start.tolist(), after.permissions, after.path, strict=True)
    assert sorted(found) == [
        (0x0, "---", "//anon"),
        (0x1000, "r-x", "/bin/dd"),
        (0x2000, "rw-", "/bin/dd"),
        (0x5000, "rwx", "//anon"),
        # libc has a hit; what of it the map has is not there twice.
        (0x10000, "rw-", "[heap]"),
        (0x20000, "r-x", "/lib/late.so"),
    ]


def test_executable_mappings_that_others_cover_are_not_there_twice():
    log = EventLog()
    log.comm(0, 2, b"dd")
    log.mmap(10, 2, 0x1000, 0x9000, b"/first")
    log.mmap(11, 2, 0x2000, 0x1000, b"/second")
    text = b"""\
00008000-0000b000 r-xp 00000000 00:00 0 /x
0000a000-0000b000 r-xp 00000000 00:00 0 /y
"""
    _, maps = maps_of(log, read_maps((2, 50, text)))
    assert maps(0).path == ["/first", "/second", "/first", "/y"]
