"""Split a stream of bytes into records, keeping perf's own records apart from the kernel's.

Comes in: bytes in pieces of any size. Goes out: runs of whole kernel records, single records of
perf, and what is wrong with the chain. Opens nothing and reads nothing by itself.
Source: ``reader__read_event()`` and ``perf_session__process_user_event()`` in
``tools/perf/util/session.c``, Linux 6.18; ``RecordHeader::Parse()`` in
``system/extras/simpleperf/record.h`` of Android for simpleperf's records, which are passed over.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from prospect.abi import constants as abi
from prospect.perfdata import format as fmt
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

# Bits 48 to 50 of a header's word: what a size has beyond whole words.
_SIZE_REMAINDER = 7 << 48
_TYPE_MASK = 0xFFFF_FFFF
# Formats of tracepoints stand first and take some kilobytes each; then older perf has kallsyms.
_MOST_TRACING_BYTES = 8 << 20
# A record's header and the size of the payload.
_TRACING_HEAD_BYTES = 12


class Piece(NamedTuple):
    """A run of kernel records (`type` 0) or one record of perf, header included.

    `offset` is where it stands in the stream.
    """

    type: int
    data: memoryview
    offset: int


class RecordChain:
    """Follows the chain of records through a stream that arrives in pieces.

    Args:
        order: ``"<"`` or ``">"``.
        place: names the stream in a sentence about damage.
        offset: where the stream begins, for those sentences.

    Attributes:
        damage: what broke the chain, empty while it is whole. Nothing is read behind it.
        unread_bytes: of records from where it broke on, as far as they were fed.
    """

    def __init__(self, order: str, place: str, offset: int = 0) -> None:
        self.damage = ""
        self.unread_bytes = 0
        self._order = order
        self._place = place
        self._offset = offset
        self._rest = b""
        self._payload_bytes = 0
        self._is_tracing_data = False
        self._tracing_data = bytearray()

    def feed(self, data: bytes | memoryview) -> Iterator[Piece]:
        """Take in the next bytes and yield the records that are whole now.

        What is yielded lies in `data` itself where possible and is to be used at once.
        """
        if self.damage:
            self.unread_bytes += len(data)
            return
        buffer = memoryview(self._rest + data) if self._rest else memoryview(data)
        self._rest = b""
        at = self._pass_payload(buffer, 0)
        while at < len(buffer):
            end = _end_of_run(buffer, at, self._order)
            if end > at:
                yield Piece(0, buffer[at:end], self._offset + at)
                at = end
            if len(buffer) - at < fmt.RECORD_HEADER_BYTES:
                break
            type_, misc, size = struct.unpack_from(self._order + "IHH", buffer, at)
            is_of_simpleperf = type_ in fmt.SIMPLEPERF_RECORD_TYPES
            if is_of_simpleperf:
                size |= misc << 16
            if size < fmt.RECORD_HEADER_BYTES or (
                size % 8 and type_ < abi.PERF_RECORD_USER_TYPE_START
            ):
                self.damage = (
                    f"the record at byte {self._offset + at} of {self._place} has size {size}: "
                    "nothing after it is read"
                )
                self.unread_bytes = len(buffer) - at
                return
            if is_of_simpleperf:
                # These may have gigabytes, and nothing of them is needed: never collect one.
                self._payload_bytes = size - fmt.RECORD_HEADER_BYTES
                self._is_tracing_data = False
                at = self._pass_payload(buffer, at + fmt.RECORD_HEADER_BYTES)
                continue
            if size > len(buffer) - at:
                break
            yield Piece(type_, buffer[at : at + size], self._offset + at)
            self._payload_bytes = _payload_bytes(type_, buffer[at : at + size], self._order)
            self._is_tracing_data = type_ == fmt.PERF_RECORD_HEADER_TRACING_DATA
            at = self._pass_payload(buffer, at + size)
        self._rest = bytes(buffer[at:])
        self._offset += at

    @property
    def cut_bytes(self) -> int:
        """Of the last record, as long as it is not whole."""
        return len(self._rest)

    def finish(self) -> str:
        """Return a sentence on what is wrong with the stream as a whole, empty if nothing is."""
        if self.damage:
            return self.damage
        if self._rest:
            return f"{self._place} ends within the record at byte {self._offset}"
        if self._payload_bytes:
            return f"{self._place} ends within the payload before byte {self._offset}"
        return ""

    @property
    def tracing_data(self) -> bytes:
        """What stood behind HEADER_TRACING_DATA records, its first megabytes at most."""
        return bytes(self._tracing_data)

    def _pass_payload(self, buffer: memoryview, at: int) -> int:
        step = min(self._payload_bytes, len(buffer) - at)
        self._payload_bytes -= step
        room = _MOST_TRACING_BYTES - len(self._tracing_data)
        if self._is_tracing_data and step and room > 0:
            self._tracing_data += buffer[at : at + min(step, room)]
        return at + step


def _end_of_run(buffer: memoryview, at: int, order: str) -> int:
    """Return where the kernel's records from `at` on end: at one of perf's, a cut or a bad one."""
    # Read as native words, a record costs 0.1 µs; struct would take three times that.
    words = buffer[at : at + (len(buffer) - at) // 8 * 8].cast("Q")
    if order == ">":
        return at + 8 * _run_words_swapped(words)
    end = len(words)
    word = 0
    while word < end:
        head = words[word]
        step = head >> 51
        if (
            head & _TYPE_MASK >= abi.PERF_RECORD_USER_TYPE_START
            or head & _SIZE_REMAINDER
            or not step
            or word + step > end
        ):
            break
        word += step
    return at + 8 * word


def _run_words_swapped(words: memoryview) -> int:
    end = len(words)
    word = 0
    while word < end:
        type_, _, size = struct.unpack(">IHH", words[word : word + 1])
        step = size // 8
        if type_ >= abi.PERF_RECORD_USER_TYPE_START or size % 8 or not step or word + step > end:
            break
        word += step
    return word


def _payload_bytes(type_: int, record: memoryview, order: str) -> int:
    """Return how many bytes stand behind a record without belonging to the chain."""
    if type_ == fmt.PERF_RECORD_AUXTRACE and len(record) >= 16:
        return int(struct.unpack_from(order + "Q", record, 8)[0])
    if type_ == fmt.PERF_RECORD_HEADER_TRACING_DATA and len(record) >= _TRACING_HEAD_BYTES:
        size = int(struct.unpack_from(order + "I", record, 8)[0])
        # perf counts only these 12 bytes in the record's size; simpleperf counts the payload too.
        return 0 if _TRACING_HEAD_BYTES + size <= len(record) else size
    return 0
