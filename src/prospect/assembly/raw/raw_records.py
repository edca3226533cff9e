"""Raw data of samples → columns, by the event source of the event's PMU.

An event source is a plug-in with the PMU's name: a function of `RawRecords` that returns numpy
arrays by name, of numbers or texts. docs/plugins.md builds one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.assembly.assembly_limits import MOST_COLUMNS, MOST_TEXTS
from prospect.errors import PluginError, UsageError
from prospect.plugins import EVENTS, called, described, package_of, plugin
from prospect.profile.model import DataColumn, SampleData
from prospect.records import replace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from importlib.metadata import EntryPoint

    from prospect.abi.attr import EventDescription
    from prospect.columns.array_types import I64, U8, U16, U32, U64
    from prospect.events.record_columns import Events, RawData
    from prospect.profile.model import Profile


_SIZE_BYTES = 4
_MASK_LOW = np.uint64((1 << 32) - 1)
_PMU = re.compile(r"(\w+)/")


class RawRecords:
    """The raw data of an event's samples, for an event source.

    Attributes:
        event: the event's name in the recording, such as "ibs_op/cnt_ctl=1/".
        config: of the event's attributes.
        size: i64[k] bytes of each sample's data.
    """

    def __init__(self, event: EventDescription, data: RawData, rows: I64) -> None:
        self.event = event.name
        self.config = event.attr.config
        self._bytes = data.words.view(np.uint8)
        self._begin = 8 * data.start.take(rows) + _SIZE_BYTES
        self.size = (data.words.take(data.start.take(rows)) & _MASK_LOW).astype(np.int64)

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.size)

    def u8(self, offset: int) -> U8:
        """Return a byte of each sample's data, u8[k]; 0 if the data ends before."""
        return np.asarray(self._number(offset, "<u1"), np.uint8)

    def u16(self, offset: int) -> U16:
        """Return two bytes of each, the lowest first, u16[k]; the same."""
        return np.asarray(self._number(offset, "<u2"), np.uint16)

    def u32(self, offset: int) -> U32:
        """Return four bytes of each, u32[k]; the same."""
        return np.asarray(self._number(offset, "<u4"), np.uint32)

    def u64(self, offset: int) -> U64:
        """Return eight bytes of each, u64[k]; the same."""
        return np.asarray(self._number(offset, "<u8"), np.uint64)

    def _number(self, offset: int, kind: str) -> Any:
        width = np.dtype(kind).itemsize
        is_there = (offset >= 0) & (self.size >= offset + width)
        begin = np.where(is_there, self._begin + offset, 0)
        found = self._bytes.take(begin[:, None] + np.arange(width), mode="clip").view(kind)[:, 0]
        return np.where(is_there, found, np.zeros(1, kind))


def with_sample_data(
    profile: Profile, events: Events, all_events: Sequence[EventDescription]
) -> Profile:
    """Return a profile with the columns that event sources make of its samples' raw data.

    If a source fails, its data is left out, and a limit of the profile says so.
    """
    data = events.samples.data
    if data is None:
        return profile
    of_event = events.samples.event.take(data.sample)
    found, limits = [], []
    for row, event in enumerate(all_events):
        rows = np.flatnonzero(of_event == row)
        name = _PMU.match(event.name)
        if not len(rows) or not name:
            continue
        try:
            source = plugin(EVENTS, name[1])
            if source is None:
                continue
            columns = _columns(source, RawRecords(event, data, rows))
            found.append(SampleData(row, package_of(source), data.sample.take(rows), columns))
        except (PluginError, UsageError) as error:
            limits.append(f"{error}; its data is left out")
    run = replace(profile.run, limits=(*profile.run.limits, *limits))
    return replace(profile, run=run, sample_data=tuple(found))


def _columns(source: EntryPoint, raw: RawRecords) -> tuple[DataColumn, ...]:
    """Return the columns that a source makes of raw data."""
    made = called(source, raw)
    try:
        return tuple(_column(name, values, len(raw)) for name, values in _checked(made).items())
    except (TypeError, ValueError) as error:
        raise PluginError(f"{described(source)} failed: {error}") from error


def _checked(made: object) -> Mapping[str, object]:
    if not isinstance(made, dict) or not all(isinstance(name, str) for name in made):
        raise TypeError("it returned no dict of columns by name")
    if len(made) > MOST_COLUMNS:
        raise ValueError(f"it returned more than {MOST_COLUMNS} columns")
    return made


def _column(name: str, values: object, length: int) -> DataColumn:
    column = np.asarray(values)
    if column.shape != (length,):
        raise ValueError(f"column {name} has the shape {column.shape}, not ({length},)")
    if column.dtype.kind not in "US":
        return DataColumn(name, column.astype(np.float64))
    texts, row = np.unique(column.astype(np.str_), return_inverse=True)
    if len(texts) > MOST_TEXTS:
        raise ValueError(f"column {name} has more than {MOST_TEXTS} texts")
    is_empty = (texts == "").take(row)
    return DataColumn(name, np.where(is_empty, np.nan, row), tuple(map(str, texts.tolist())))
