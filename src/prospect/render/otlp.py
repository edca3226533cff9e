"""OTLP profiles: stacks as OpenTelemetry's collectors take them.

The message is a ``ProfilesData`` of OpenTelemetry's
``opentelemetry/proto/profiles/v1development/profiles.proto`` of version 1.8 and later, in which
samples refer to a table of stacks. The format is still being developed: readers must support that
layout. Each value of an event is its own profile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.figures.stacks.frames import frame_table
from prospect.figures.stacks.stack_weights import nanoseconds, stack_weights
from prospect.profile.model import (
    KIND_BPF,
    KIND_ELF,
    KIND_JAVASCRIPT,
    KIND_KERNEL,
    KIND_MODULE,
    KIND_PHP,
    KIND_PYTHON,
    KIND_RUBY,
    KIND_VDSO,
    NO_CPU,
)
from prospect.profile.naming import NameSource
from prospect.records import Record
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
    fixed64_field,
    grouped,
    joined,
    message,
    number_field,
    single,
    texts,
    varints,
)
from prospect.render.renderer import StackRenderer
from prospect.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from prospect.columns.array_types import I64
    from prospect.figures.stacks.stack_weights import StackSamples, StackWeights
    from prospect.profile.complete import CompleteProfile

_NONE = b""
_FRAME_TYPES = {
    KIND_ELF: "native",
    KIND_VDSO: "native",
    KIND_KERNEL: "kernel",
    KIND_MODULE: "kernel",
    KIND_BPF: "kernel",
    KIND_PYTHON: "cpython",
    KIND_RUBY: "ruby",
    KIND_PHP: "php",
    KIND_JAVASCRIPT: "v8js",
}


class _Attributes(Record, frozen=False):
    """The attribute table: (key, value) by number; row 0 is none."""

    rows: dict[tuple[str, str], int]

    def of(self, key: str, values: list[str]) -> I64:
        """Return i64[n] the number of each value, 0 for empty ones."""
        return np.array(
            [self.rows.setdefault((key, v), len(self.rows) + 1) if v else 0 for v in values],
            np.int64,
        )


class OtlpRenderer(StackRenderer):
    """OpenTelemetry's ProfilesData (v1development), for collectors and their backends."""

    def pieces(self, samples: StackSamples) -> Iterator[bytes]:
        """Yield the resource with its profiles, then the dictionary."""
        profile = samples.profile
        strings, attributes = Strings(), _Attributes({})
        tables = code_tables(samples, frame_table(profile, inlined=self.inline), strings)
        weights = stack_weights(samples, by_place=True)
        stacks, stack = np.unique(weights.stack_index, return_inverse=True)
        links = _sample_attributes(profile, weights, attributes)
        time = nanoseconds(profile, weights.event, weights.count, weights.period)
        profiles = [
            message(
                2,
                single(
                    _value_type(1, strings, kind, unit),
                    _samples(column, stack, links),
                    *_when(profile, event, strings),
                ),
            )
            for event, kind, unit, column in value_columns(profile, weights, time)
        ]
        scope = single(_text(1, "prospect"), _text(2, __version__))
        yield message(
            1,
            single(
                message(1, single(_resource(profile))),
                message(2, single(message(1, scope), *profiles)),
            ),
        )
        mapping_attributes = attributes.of(
            "process.executable.build_id.gnu", object_build_ids(profile, tables)
        )
        # The strings are last: all other tables add some.
        dictionary = [
            _mappings(profile, tables, mapping_attributes, strings),
            _locations(tables, _frame_types(profile, tables, attributes)),
            _functions(tables),
            message(4, single(_NONE)),
            _attribute_table(attributes, strings),
            _stacks(samples, tables, stacks),
            message(5, texts(list(strings.rows))),
        ]
        yield message(2, single(*dictionary))


def _sample_attributes(
    profile: CompleteProfile, weights: StackWeights, attributes: _Attributes
) -> tuple[I64, I64]:
    """Return i64[w + 1] where each row's attributes begin, and i64[m] their numbers."""
    processes = profile.processes
    columns = [
        attributes.of("process.executable.name", processes.name).take(weights.process_index),
        attributes.of("process.pid", [str(pid) for pid in processes.pid.tolist()]).take(
            weights.process_index
        ),
        attributes.of("thread.name", profile.comms).take(weights.comm_index),
        attributes.of("prospect.entry_reason", profile.entry_reasons.name).take(
            weights.entry_reason_index
        ),
    ]
    for key, column, unknown in (
        ("thread.id", weights.tid, -1),
        ("cpu.logical_number", weights.cpu, NO_CPU),
    ):
        distinct, row = np.unique(column, return_inverse=True)
        names = ["" if number == unknown else str(number) for number in distinct.tolist()]
        columns.append(attributes.of(key, names).take(row))
    matrix = np.stack(columns, axis=1)
    return np.append(0, np.cumsum((matrix > 0).sum(axis=1))), matrix[matrix > 0]


def _samples(column: I64, stack: NDArray[np.intp], attributes: tuple[I64, I64]) -> bytes:
    start, numbers = attributes
    keep = column > 0
    rows = joined(
        number_field(1, stack.astype(np.int64) + 1),
        bytes_field(2, grouped(varints(numbers), start)),
        bytes_field(4, varints(column)),
    )
    encoded = bytes_field(2, rows)
    return encoded.data[np.repeat(keep, encoded.size)].tobytes()


def _when(profile: CompleteProfile, event: int, strings: Strings) -> Iterator[bytes]:
    run = profile.run
    yield fixed64_field(3, int(max(run.started_at, 0.0) * 1e9))
    yield number_field(4, np.array([int(max(run.wall_seconds, 0.0) * 1e9)])).data.tobytes()
    frequency_hz = run.events[event].frequency_hz
    if frequency_hz > 0:
        yield _value_type(5, strings, "cpu", "nanoseconds")
        yield number_field(6, np.array([int(1e9 / frequency_hz)])).data.tobytes()


def _resource(profile: CompleteProfile) -> bytes:
    run = profile.run
    facts = {
        "host.name": run.hostname,
        "host.arch": run.arch,
        "os.type": "linux",
        "os.version": run.os_release,
        "process.command": run.command[0] if run.command else "",
    }
    return b"".join(
        message(1, single(_text(1, key), message(2, single(_text(1, value)))))
        for key, value in facts.items()
        if value
    )


def _mappings(
    profile: CompleteProfile, tables: CodeTables, attributes: I64, strings: Strings
) -> bytes:
    paths = [profile.objects.path[row] for row in tables.object_index.tolist()]
    start = np.append(0, np.cumsum(attributes > 0))
    return message(1, single(_NONE)) + message(
        1,
        number_field(1, tables.mapping_start),
        number_field(2, tables.mapping_limit),
        number_field(4, strings.of(paths)),
        bytes_field(5, grouped(varints(attributes[attributes > 0]), start)),
    )


def _frame_types(profile: CompleteProfile, tables: CodeTables, attributes: _Attributes) -> I64:
    """Return i64[l] the number of each location's attribute with its type of code.

    Source: OpenTelemetry's semantic conventions for profiles, ``profile.frame.type``.
    """
    kinds = profile.objects.kind.take(tables.object_index).tolist()
    is_java = (profile.objects.source.take(tables.object_index) == NameSource.JVM).tolist()
    types = [
        "jvm" if java else _FRAME_TYPES.get(kind, "")
        for kind, java in zip(kinds, is_java, strict=True)
    ]
    of_object = attributes.of("profile.frame.type", types)
    return np.append(of_object, 0).take(tables.location_mapping)


def _locations(tables: CodeTables, types: I64) -> bytes:
    start = np.append(0, np.cumsum(types > 0))
    lines = joined(number_field(1, tables.line_frame + 1), number_field(2, tables.line_number))
    return message(2, single(_NONE)) + message(
        2,
        number_field(1, tables.location_mapping + 1),
        number_field(2, tables.location_address),
        grouped(bytes_field(3, lines), tables.line_start),
        bytes_field(4, grouped(varints(types[types > 0]), start)),
    )


def _functions(tables: CodeTables) -> bytes:
    return message(3, single(_NONE)) + message(
        3,
        number_field(1, tables.function_name),
        number_field(2, tables.function_linkage_name),
        number_field(3, tables.function_file),
    )


def _attribute_table(attributes: _Attributes, strings: Strings) -> bytes:
    keys = strings.of([key for key, _ in attributes.rows])
    values = bytes_field(1, texts([value for _, value in attributes.rows]))
    return message(6, single(_NONE)) + message(6, number_field(1, keys), bytes_field(2, values))


def _stacks(samples: StackSamples, tables: CodeTables, stacks: I64) -> bytes:
    start, location = stacks_innermost_first(samples, tables, stacks)
    return message(7, single(_NONE)) + message(
        7, bytes_field(1, grouped(varints(location + 1), start))
    )


def _value_type(number: int, strings: Strings, kind: str, unit: str) -> bytes:
    fields = [
        number_field(field, np.array([strings[text]])) for field, text in ((1, kind), (2, unit))
    ]
    return message(number, *fields)


def _text(number: int, text: str) -> Rows:
    return bytes_field(number, texts([text]))
