"""Stores of many hosts whose hits are known: by program, build and function, a window a minute."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from builders.stored import BEGIN_S, US, window_at, written_once
from prospect.profile.naming import NameSource
from prospect.records import replace
from prospect.store.directory import StoreDirectory
from prospect.store.engine import Engine
from prospect.store.segments import COVERAGE, CURRENT, FUNCTIONS, SAMPLES, STACKS
from prospect.store.windows import Span, _number
from prospect.store.writing import segment_for, write_segment

if TYPE_CHECKING:
    from pathlib import Path

    from prospect.profile.run_info import EventInfo

TICK_NS = 52_631_578
WINDOW_US = 60 * US


class Hit(NamedTuple):
    """So many samples of a function, below the functions that `callers` names, outermost first."""

    name: str
    count: int
    path: str = "/usr/bin/web"
    build_id: str = "aa" * 20
    process: str = "web"
    service: str = "web.service"
    callers: tuple[str, ...] = ("main",)
    pid: int = -1

    def number(self, name: str) -> int:
        return _number(self.path, 1, self.build_id, 64, name, int(self.source(name)))

    def source(self, name: str) -> NameSource:
        return NameSource.SYMTAB if name else NameSource.NO_COVER


def tables_of(hits: list[Hit], begin_us: int, expected: int, lost: int = 0) -> dict:
    """Return the columns of a window's files."""
    functions, stacks = {}, {}
    leaf = []
    for hit in hits:
        caller = 0
        for depth, name in enumerate((*hit.callers, hit.name)):
            functions[hit.number(name)] = (name, hit)
            stack = _number(caller, hit.number(name))
            stacks[stack] = (caller, hit.number(name), depth)
            caller = stack
        leaf.append(caller)
    rows = len(hits)
    count = np.array([hit.count for hit in hits], np.int64)
    named = list(functions.values())
    return {
        SAMPLES: {
            "service": [hit.service for hit in hits],
            "process": [hit.process for hit in hits],
            "comm": [hit.process for hit in hits],
            **{name: np.zeros(rows, np.uint8) for name in ("kind", "mode", "cause_kind")},
            "event": np.zeros(rows, np.uint16),
            "cause": [""] * rows,
            "function": np.array([hit.number(hit.name) for hit in hits], np.uint64),
            "address": np.full(rows, 80, np.uint64),
            "stack": np.array(leaf, np.uint64),
            "pid": np.array([hit.pid for hit in hits], np.int32),
            "start": np.full(rows, -1, np.int64),
            "tid": np.full(rows, -1, np.int32),
            "cpu": np.full(rows, -1, np.int16),
            "t": np.full(rows, begin_us, np.int64),
            "n": count,
            "q": count * count,
            "w": count * TICK_NS,
        },
        FUNCTIONS: {
            "function": np.array(list(functions), np.uint64),
            "name": [name for name, _ in named],
            "raw_name": [name for name, _ in named],
            "aliases": [""] * len(named),
            "address": np.full(len(named), 64, np.uint64),
            "size": np.full(len(named), 64, np.uint64),
            "is_global": np.ones(len(named), np.bool_),
            "source": np.array([int(hit.source(name)) for name, hit in named], np.uint8),
            "object": np.array([_number(hit.path, hit.build_id) for _, hit in named], np.uint64),
            "path": [hit.path for _, hit in named],
            "object_kind": np.zeros(len(named), np.uint8),
            "build_id": [hit.build_id for _, hit in named],
            "object_source": np.zeros(len(named), np.uint8),
            "note": ["" if name else "stripped" for name, _ in named],
        },
        STACKS: {
            "stack": np.array(list(stacks), np.uint64),
            "caller": np.array([caller for caller, _, _ in stacks.values()], np.uint64),
            "function": np.array([function for _, function, _ in stacks.values()], np.uint64),
            "address": np.full(len(stacks), 80, np.uint64),
            "mode": np.zeros(len(stacks), np.uint8),
            "depth": np.array([depth for _, _, depth in stacks.values()], np.int32),
        },
        COVERAGE: {
            "t": np.full(2, begin_us, np.int64),
            "until": np.full(2, begin_us + WINDOW_US, np.int64),
            "cpu": np.array([0, -1], np.int16),
            "event": np.zeros(2, np.uint16),
            "expected": np.array([expected, 0], np.int64),
            "recorded": np.array([count.sum(), 0], np.int64),
            "lost": np.array([lost, 0], np.int64),
            "throttled": np.zeros(2, np.int64),
            "idle": np.array([max(expected - int(count.sum()) - lost, 0), 0], np.int64),
            "missing": np.zeros(2, np.int64),
            "steal_us": np.zeros(2, np.int64),
        },
    }


CLOCK = window_at(0).head.events[0]
# What counts something else than time: a sample is so long as the machine's rate says.
CYCLES = replace(CLOCK, name="cycles", seconds_per_period=0.0, seconds_per_hit=1 / 19, clocks=0)


def fill_host(
    fleet: Path,
    host: str,
    windows: dict[int, list[Hit]],
    expected: int = 1140,
    event: EventInfo = CLOCK,
    *,
    lost: int = 0,
) -> None:
    """Write the windows of a host, by minute, to its store below a directory of hosts."""
    fleet.mkdir(mode=0o700, exist_ok=True)
    head = window_at(0).head
    head = replace(head, run={**head.run, "hostname": host}, events=(event,))
    path = fleet / f"host={host}"

    def write() -> None:
        with StoreDirectory(str(path), create=True) as store, closing(Engine(store)) as engine:
            store.lock()
            for number, (minute, hits) in enumerate(sorted(windows.items())):
                begin_us = (BEGIN_S + 60 * minute) * US
                segment = segment_for(Span(begin_us, begin_us + WINDOW_US), CURRENT, number)
                tables = tables_of(hits, begin_us, expected, lost)
                write_segment(store, engine, segment, head, tables)

    written_once(path, (head, windows, expected, lost), write)


def usual(seed: int, functions: int = 30, samples: int = 900, **options) -> list[Hit]:
    """Return a window of a host like the others: shares by a Zipf law, and drawn once."""
    shares = 1.0 / np.arange(1, functions + 1)
    drawn = np.random.default_rng(seed).multinomial(samples, shares / shares.sum())
    return [
        Hit(f"f{row}", int(count), **options) for row, count in enumerate(drawn.tolist()) if count
    ]


OLD, NEW = "aa" * 20, "bb" * 20


def fleet_store(path: Path) -> Path:
    """Write eight hosts of four minutes: a new build in the third; one host spins, one stops."""
    for host in range(8):
        windows = {}
        for minute in range(3 if host == 6 else 4):
            build = OLD if minute < 2 else NEW
            hits = usual(10 * host + minute, build_id=build)
            hits.append(Hit("", 5, path="/usr/lib/x.so", build_id="cc" * 20))
            hits.append(Hit("idle", 50, process="swapper", pid=0))
            if host == 5:
                hits.append(Hit("spin", 400, build_id=build))
            if minute >= 2:
                hits.append(Hit("new", 80, build_id=NEW))
            windows[minute] = hits
        fill_host(path, f"h{host}", windows)
    return path


def canaries(path: Path) -> Path:
    """Write twelve hosts, three with a build that compresses in a library; one mixes builds.

    A thirteenth runs a third build, alone.
    """
    for host in range(13):
        build = NEW if host < 3 else "dd" * 20 if host == 12 else OLD
        windows = {}
        for minute in range(2):
            hits = usual(10 * host + minute, build_id=build)
            packing = 300 if build == NEW else 30
            packed = np.random.default_rng(10 * host + minute).poisson(packing)
            hits.append(Hit("deflate", int(packed), path="/usr/lib/libz.so", build_id="ee" * 20))
            if host == 11:
                hits += usual(99, samples=100, build_id=NEW)
            windows[minute] = hits
        fill_host(path, f"h{host:02}", windows)
    return path
