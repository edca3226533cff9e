"""pprof: stacks with addresses, build ids, source lines and labels, gzipped.

The message is google/pprof's ``proto/profile.proto``. Labels separate the samples of processes,
threads, CPUs and entry reasons.
"""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import numpy as np

from prospect.figures.stacks.frames import frame_table
from prospect.figures.stacks.stack_weights import nanoseconds, stack_weights
from prospect.profile.model import NO_CPU
from prospect.render.code_tables import (
    CodeTables,
    Strings,
    code_tables,
    object_build_ids,
    stacks_innermost_first,
    value_columns,
)
from prospect.render.protobuf import (
    Rows,
    bytes_field,
    chosen,
    grouped,
    joined,
    message,
    number_field,
    texts,
    varints,
)
from prospect.render.renderer import StackRenderer
from prospect.version import generator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.columns.array_types import I64
    from prospect.figures.stacks.stack_weights import StackSamples, StackWeights
    from prospect.profile.complete import CompleteProfile

_PART = 1 << 14  # samples at a time
_GZIP_LEVEL = 1  # six times as fast as 6, and a fifth larger


class PprofRenderer(StackRenderer):
    """pprof's profile.proto, for pprof and other readers of its files."""

    def pieces(self, samples: StackSamples) -> Iterator[bytes]:
        """Yield the compressed message."""
        profile = samples.profile
        strings = Strings()
        frames = frame_table(profile, inlined=self.inline)
        tables = code_tables(samples, frames, strings)
        weights = stack_weights(samples, by_place=True)
        # The strings are last: all other tables add some.
        body = [
            *_head(profile, weights, strings),
            _samples(samples, weights, tables, strings),
            _mappings(profile, tables, strings),
            _locations(tables),
            _functions(tables),
            message(6, texts(list(strings.rows))),
        ]
        yield gzip.compress(b"".join(body), _GZIP_LEVEL, mtime=0)


def _head(profile: CompleteProfile, weights: StackWeights, strings: Strings) -> Iterator[bytes]:
    time = np.zeros(len(weights), np.int64)
    kinds = [(kind, unit) for _, kind, unit, _ in value_columns(profile, weights, time)]
    for kind, unit in kinds:
        yield message(1, *_value_type(strings, kind, unit))
    run = profile.run
    yield number_field(9, _one(max(run.started_at, 0.0) * 1e9)).data.tobytes()
    yield number_field(10, _one(max(run.wall_seconds, 0.0) * 1e9)).data.tobytes()
    frequency_hz = run.events[0].frequency_hz
    if frequency_hz > 0:
        kind = run.events[0].name if run.events[0].unit else "cpu"
        yield message(11, *_value_type(strings, kind, "nanoseconds"))
        yield number_field(12, _one(1e9 / frequency_hz)).data.tobytes()
    comment = strings[f"{generator()}, from {run.recorder}"]
    yield number_field(13, _one(comment)).data.tobytes()
    # The weight of the first event's samples: its time, or what it counted.
    event = run.events[int(weights.event.min(initial=len(run.events) - 1))]
    first = int(bool(event.counts or not event.unit))
    yield number_field(14, _one(strings[kinds[first][0]])).data.tobytes()


def _samples(
    samples: StackSamples, weights: StackWeights, tables: CodeTables, strings: Strings
) -> bytes:
    profile = samples.profile
    stacks, stack = np.unique(weights.stack_index, return_inverse=True)
    start, location = stacks_innermost_first(samples, tables, stacks)
    locations = bytes_field(1, grouped(varints(location + 1), start))
    time = nanoseconds(profile, weights.event, weights.count, weights.period)
    columns = [column for _, _, _, column in value_columns(profile, weights, time)]
    values = np.stack(columns, axis=1)
    labels = list(_labels(profile, weights, strings))
    parts = []
    for first in range(0, len(weights), _PART):
        part = slice(first, first + _PART)
        bounds = np.arange(len(values[part]) + 1) * values.shape[1]
        parts.append(
            message(
                2,
                chosen(locations, stack[part]),
                bytes_field(2, grouped(varints(values[part].ravel()), bounds)),
                *(chosen(encoded, row[part]) for encoded, row in labels),
            )
        )
    return b"".join(parts)


def _labels(
    profile: CompleteProfile, weights: StackWeights, strings: Strings
) -> Iterator[tuple[Rows, I64]]:
    """Yield the encoded values of each label, and the value of each row by number."""
    processes = profile.processes
    yield _label(strings, "process", processes.name), weights.process_index
    yield _label(strings, "thread", profile.comms), weights.comm_index
    yield _label(strings, "entry_reason", profile.entry_reasons.name), weights.entry_reason_index
    # As strings: pprof takes the number 0 for none.
    pids = list(map(str, processes.pid.tolist()))
    yield _label(strings, "pid", pids), weights.process_index
    for key, column, unknown in (("tid", weights.tid, -1), ("cpu", weights.cpu, NO_CPU)):
        distinct, row = np.unique(column, return_inverse=True)
        numbers = ["" if number == unknown else str(number) for number in distinct.tolist()]
        yield _label(strings, key, numbers), row.astype(np.int64)


def _label(strings: Strings, key: str, values: list[str]) -> Rows:
    """Encode a label for each of its values; an empty one is no label."""
    names = strings.of(values)
    is_named = names != 0
    names = names[is_named]
    keys = np.full(len(names), strings[key], np.int64)
    kept = bytes_field(3, joined(number_field(1, keys), number_field(2, names)))
    size = np.zeros(len(values), np.int64)
    size[is_named] = kept.size
    return Rows(kept.data, size)


def _mappings(profile: CompleteProfile, tables: CodeTables, strings: Strings) -> bytes:
    objects = tables.object_index.tolist()
    lines = np.full(len(objects), profile.lines is not None, np.int64)
    return message(
        3,
        number_field(1, np.arange(1, len(objects) + 1)),
        number_field(2, tables.mapping_start),
        number_field(3, tables.mapping_limit),
        number_field(5, strings.of([profile.objects.path[row] for row in objects])),
        number_field(6, strings.of(object_build_ids(profile, tables))),
        number_field(7, np.ones(len(objects), np.int64)),
        number_field(8, lines),
        number_field(9, lines),
        number_field(10, lines),
    )


def _locations(tables: CodeTables) -> bytes:
    lines = joined(number_field(1, tables.line_frame + 1), number_field(2, tables.line_number))
    count = len(tables.location_address)
    return message(
        4,
        number_field(1, np.arange(1, count + 1)),
        number_field(2, tables.location_mapping + 1),
        number_field(3, tables.location_address),
        grouped(bytes_field(4, lines), tables.line_start),
    )


def _functions(tables: CodeTables) -> bytes:
    return message(
        5,
        number_field(1, np.arange(1, len(tables.function_name) + 1)),
        number_field(2, tables.function_name),
        number_field(3, tables.function_linkage_name),
        number_field(4, tables.function_file),
    )


def _value_type(strings: Strings, kind: str, unit: str) -> tuple[Rows, Rows]:
    return number_field(1, _one(strings[kind])), number_field(2, _one(strings[unit]))


def _one(value: float) -> I64:
    return np.array([value], np.float64 if isinstance(value, float) else np.int64).astype(np.int64)
