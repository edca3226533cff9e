"""Names of Python's code objects, carried from one part of a session to the next.

Comes in: the records of each part, in turn. Goes out: those of a part with all names that earlier
ones told, and the records that a saved recording begins with. The walker sends a name at first
sight, and again from time to time: what it has not sent for longer nobody runs any more.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, TypeVar

from prospect.abi import constants as abi
from prospect.abi import python_frames as wire
from prospect.abi.layout import layout_of
from prospect.events.python_records import NameRoom
from prospect.records import replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prospect.abi.attr import EventDescription
    from prospect.events.columns import Events
    from prospect.events.python_records import CodeKey, CodeText, PythonImage

_Key = TypeVar("_Key")
_Known = TypeVar("_Known")
_RECORD = struct.Struct("<IHH")
_RAW_BYTES = 4
# Names in a session: 8 MB of an interpreter, 32 MB of a user.
_MOST_BYTES = 64 << 20
# As rings and looks may delay what is sent, one more than is needed.
_KEPT_NS = 3 * 10**9 * wire.SENT_AGAIN_S


class PythonNames:
    """What is known of interpreters and code objects, and since when last."""

    def __init__(self) -> None:
        self._images: dict[int, tuple[int, PythonImage]] = {}
        self._texts: dict[CodeKey, tuple[int, CodeText]] = {}
        self._room = NameRoom(_MOST_BYTES)

    def __len__(self) -> int:
        """Return how many code objects are known."""
        return len(self._texts)

    def carried(self, events: Events, end_ns: int) -> Events:
        """Return a part's records with all names that are known; keep what the part says.

        Args:
            events: the part.
            end_ns: when it ended.
        """
        _forget_before(self._images, end_ns - _KEPT_NS)
        for key in _forget_before(self._texts, end_ns - _KEPT_NS):
            self._room.forget(key)
        python = events.python
        if python is None:
            return events
        for number, image in python.images.items():
            self._images[number] = end_ns, image
        left_out = dict(python.left_out)
        for key, text in python.texts.items():
            before = self._texts.get(key, (0, text))[1]._asdict()
            new = {name: one for name, one in text._asdict().items() if one is not None}
            whole = text._replace(**before | new)
            known = self._images.get(key.image)
            if self._room.take(key, whole, known[1].user if known else 0):
                self._texts[key] = end_ns, whole
            elif key not in self._texts:
                left_out[key.image] = left_out.get(key.image, 0) + 1
        return replace(
            events,
            python=replace(
                python,
                images={number: image for number, (_, image) in self._images.items()},
                texts={key: text for key, (_, text) in self._texts.items()},
                left_out=tuple(left_out.items()),
            ),
        )

    def records(self, events: Sequence[EventDescription]) -> bytes:
        """Return samples of time 0 that say all that is known.

        Args:
            events: of the recording.
        """
        found = [one for one in events if wire.is_frames_event(one.attr, one.name) and one.ids]
        if not found:
            return b""
        return b"".join(_sample(found[0], payload) for payload in self._payloads())

    def _payloads(self) -> Iterator[bytes]:
        for number, (_, image) in self._images.items():
            version, *places, described, user = image
            payload = wire.IMAGE.pack(version, described, *places)
            yield _head(wire.KIND_IMAGE, 0, len(payload), (0, number, user, 0)) + payload
        for (image_number, code, signature), (_, text) in self._texts.items():
            place = (signature, image_number, code, text.beginning)
            for kind, part in ((wire.KIND_NAME, text.name), (wire.KIND_FILE, text.file)):
                if part is not None:
                    yield _head(kind, part[0], len(part[1]), place) + part[1]
            if text.lines is not None:
                yield _head(wire.KIND_LINES, 0, len(text.lines), place) + text.lines


def _forget_before(table: dict[_Key, tuple[int, _Known]], time_ns: int) -> list[_Key]:
    old = [key for key, (known_ns, _) in table.items() if known_ns < time_ns]
    for key in old:
        del table[key]
    return old


def _head(kind: int, status: int, count: int, place: tuple[int, int, int, int]) -> bytes:
    return wire.HEADER.pack(wire.MAGIC, kind, status, count, *place)


def _sample(event: EventDescription, payload: bytes) -> bytes:
    """Return a sample of the event of Python frames, at time 0."""
    layout = layout_of(event.attr)
    fixed = [0] * layout.fixed_words
    fixed[layout.sample["identifier"]] = event.ids[0]
    size = -(-(_RAW_BYTES + len(payload)) // 8) * 8 - _RAW_BYTES
    record = struct.pack(f"<{len(fixed) - 1}QI", *fixed[1:], size) + payload.ljust(size, b"\0")
    return _RECORD.pack(abi.PERF_RECORD_SAMPLE, 0, _RECORD.size + len(record)) + record
