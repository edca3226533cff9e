"""A recording to be read record by record: pipes, compressed records, trace data, big-endian files.

`RecordChain` divides the stream into records, and separates perf's own records from the kernel's.
`Unpacker` unpacks compressed ones: all of a file form one Zstandard stream. The results are
RecordBlocks of whole little-endian records, and metadata.

Source: ``reader__read_event()`` and ``perf_session__process_user_event()`` in
``tools/perf/util/session.c``, ``zstd_decompress_stream()`` in ``tools/perf/util/zstd.c`` and
``perf_session__process_compressed_event()`` in ``tools/perf/util/tool.c``, Linux 6.18;
``RecordHeader::Parse()`` in ``system/extras/simpleperf/record.h`` of Android for simpleperf's
records, which are skipped.
"""

from __future__ import annotations

import itertools
import struct
from typing import TYPE_CHECKING

from prospect.abi import constants as abi
from prospect.abi.recorded_facts import RecordBlock
from prospect.errors import RecordingError
from prospect.perfdata import format as fmt
from prospect.perfdata.byteorder import to_little_endian
from prospect.perfdata.perfdata_limits import FREE_BYTES, MOST_RATIO, MOST_TRACING_BYTES
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zstandard import ZstdDecompressionObj

    from prospect.perfdata.metadata import Metadata

# Bits 48 to 50 of a header's word: the size modulo 8.
_SIZE_REMAINDER = 7 << 48
_TYPE_MASK = 0xFFFF_FFFF
# A record's header and the size of the payload.
_TRACING_HEAD_BYTES = 12

# Bytes unpacked at a time. Zstandard makes at most 128 KiB of 4 bytes, so a step of a hostile
# stream yields at most 8 MiB.
_STEP_BYTES = 256

_BLOCK_BYTES = 8 << 20
_COMPRESSED = frozenset({fmt.PERF_RECORD_COMPRESSED, fmt.PERF_RECORD_COMPRESSED2})
# Bytes outside of the chain follow these, so they cannot be in a block.
_WITH_PAYLOAD = frozenset({fmt.PERF_RECORD_AUXTRACE, fmt.PERF_RECORD_HEADER_TRACING_DATA})


class Piece(NamedTuple):
    """A run of kernel records (`type` 0) or one record of perf, header included.

    `offset` is its place in the stream.
    """

    type: int
    data: memoryview
    offset: int


class RecordChain:
    """Follows the chain of records through a stream that arrives in pieces.

    Args:
        order: ``"<"`` or ``">"``.
        place: the name of the stream, for sentences about damage.
        offset: where the stream begins, for those sentences.

    Attributes:
        damage: what broke the chain, empty while it is whole. Nothing after it is read.
        unread_bytes: of the records that were fed from the damage on.
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
        """Read the next bytes and yield the records that are complete.

        Pieces are parts of `data` if possible, and valid until the next step.
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
                # These may have gigabytes, and none is needed: never collect one.
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
        """The bytes of the last record if it is incomplete."""
        return len(self._rest)

    def finish(self) -> str:
        """Return a sentence on the damage of the stream, empty for none."""
        if self.damage:
            return self.damage
        if self._rest:
            return f"{self._place} ends within the record at byte {self._offset}"
        if self._payload_bytes:
            return f"{self._place} ends within the payload before byte {self._offset}"
        return ""

    @property
    def tracing_data(self) -> bytes:
        """The bytes after HEADER_TRACING_DATA records, at most the first megabytes."""
        return bytes(self._tracing_data)

    def _pass_payload(self, buffer: memoryview, at: int) -> int:
        step = min(self._payload_bytes, len(buffer) - at)
        self._payload_bytes -= step
        room = MOST_TRACING_BYTES - len(self._tracing_data)
        if self._is_tracing_data and step and room > 0:
            self._tracing_data += buffer[at : at + min(step, room)]
        return at + step


def _end_of_run(buffer: memoryview, at: int, order: str) -> int:
    """Return the end of a run of the kernel's records: at one of perf's, a cut or a bad one."""
    # With native words, a record takes 0.1 µs; struct would take three times that.
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
    """Return the number of bytes after a record that are outside of the chain."""
    if type_ == fmt.PERF_RECORD_AUXTRACE and len(record) >= 16:
        return int(struct.unpack_from(order + "Q", record, 8)[0])
    if type_ == fmt.PERF_RECORD_HEADER_TRACING_DATA and len(record) >= _TRACING_HEAD_BYTES:
        size = int(struct.unpack_from(order + "I", record, 8)[0])
        # perf counts only these 12 bytes in the record's size; simpleperf counts the payload too.
        return 0 if _TRACING_HEAD_BYTES + size <= len(record) else size
    return 0


class Unpacker:
    """Unpacks the payloads of a recording's COMPRESSED records, in order."""

    def __init__(self) -> None:
        self._stream: ZstdDecompressionObj | None = None
        self._allowed_bytes = FREE_BYTES

    def unpack(self, payload: memoryview) -> Iterator[bytes]:
        """Yield the bytes that the next payload adds to the stream of records, in pieces.

        Raises:
            RecordingError: the payload is damaged, or unpacks to more than any recording does;
                nothing after it can be unpacked.
        """
        import zstandard  # noqa: PLC0415 - 10 ms, few recordings are compressed

        if self._stream is None:
            # Like ZSTD_decompressStream(), continue with the next frame.
            self._stream = zstandard.ZstdDecompressor().decompressobj(read_across_frames=True)
        for at in range(0, len(payload), _STEP_BYTES):
            step = payload[at : at + _STEP_BYTES]
            try:
                unpacked = self._stream.decompress(step)
            except zstandard.ZstdError as error:
                raise RecordingError(f"compressed records are damaged: {error}") from error
            self._allowed_bytes += MOST_RATIO * len(step) - len(unpacked)
            if self._allowed_bytes < 0:
                raise RecordingError("compressed records unpack to more than a recording can hold")
            yield unpacked


def compressed_payload(record: memoryview, type_: int, order: str) -> memoryview:
    """Return the compressed bytes of a COMPRESSED or COMPRESSED2 record.

    Raises:
        RecordingError: the record is cut, or gives a size larger than itself.
    """
    if type_ == fmt.PERF_RECORD_COMPRESSED:
        return record[fmt.RECORD_HEADER_BYTES :]
    if len(record) < fmt.RECORD_HEADER_BYTES + 8:
        raise RecordingError("a compressed record is cut")
    (size,) = struct.unpack_from(order + "Q", record, fmt.RECORD_HEADER_BYTES)
    payload = record[fmt.RECORD_HEADER_BYTES + 8 :]
    if size > len(payload):
        raise RecordingError(f"a compressed record claims {size} bytes and has {len(payload)}")
    return payload[:size]


class StreamPlace(NamedTuple):
    """The place of a stream of records.

    Attributes:
        origin: as in RecordBlock.
        offset: where the stream begins in its file.
        may_end_cut: as in RecordBlock.
    """

    origin: str
    offset: int
    may_end_cut: bool


class RecordStream:
    """Reads a stream of records piece by piece.

    Args:
        pieces: the stream's bytes, in pieces of any size.
        metadata: gets the metadata records.
        damage: gets sentences on damage of the stream.
    """

    def __init__(
        self,
        pieces: Iterable[bytes | memoryview],
        metadata: Metadata,
        damage: list[str],
        place: StreamPlace,
    ) -> None:
        self._metadata = metadata
        self._damage = damage
        self._place = place
        self._packed_unread_bytes = 0
        self._chain = RecordChain(metadata.order, "the recording", place.offset)
        self._unpacked = RecordChain(metadata.order, "the unpacked records")
        self._unpacker: Unpacker | None = Unpacker()
        self._collected: list[bytes] = []
        self._collected_bytes = 0
        self._steps = self._read(pieces)

    @property
    def unread_bytes(self) -> int:
        """Bytes of records that could not be read; complete at the end of `blocks`."""
        broken = self._chain.unread_bytes + self._unpacked.unread_bytes + self._packed_unread_bytes
        cut = self._chain.cut_bytes + self._unpacked.cut_bytes
        return broken if self._place.may_end_cut else broken + cut

    def read_head(self) -> None:
        """Read up to the first record of the kernel; the events precede it."""
        for _ in self._steps:
            if self._collected:
                break
        if self._chain.tracing_data:
            content = memoryview(self._chain.tracing_data)
            self._metadata.add_feature(fmt.HEADER_TRACING_DATA, content)

    def blocks(self) -> Iterator[RecordBlock]:
        """Yield the records, in blocks of a few megabytes."""
        for _ in self._steps:
            if self._collected_bytes >= _BLOCK_BYTES:
                yield self._block()
        if self._collected:
            yield self._block()
        self._damage += filter(None, (self._unpacked.finish(), self._chain.finish()))

    def _read(self, pieces: Iterable[bytes | memoryview]) -> Iterator[None]:
        """Read the stream, with a step for every record of perf or run of records."""
        for piece in itertools.chain.from_iterable(map(self._chain.feed, pieces)):
            if piece.type == fmt.PERF_RECORD_STAT_CONFIG and fmt.ONLY_COUNTS not in self._damage:
                self._damage.append(fmt.ONLY_COUNTS)
            if piece.type in _COMPRESSED:
                yield from self._unpack(piece)
            elif piece.type not in _WITH_PAYLOAD and not self._metadata.add_record(
                piece.type, piece.data
            ):
                self._collect(piece)
            yield

    def _unpack(self, piece: Piece) -> Iterator[None]:
        """Read the records packed in one, with a step for every piece of them."""
        if self._unpacker is None or self._unpacked.damage:
            self._packed_unread_bytes += len(piece.data)
            return
        try:
            payload = compressed_payload(piece.data, piece.type, self._metadata.order)
            for data in self._unpacker.unpack(payload):
                for inner in self._unpacked.feed(data):
                    self._collect(inner)
                yield
        except RecordingError as error:
            self._damage.append(f"{error}: compressed records from byte {piece.offset} on are lost")
            self._packed_unread_bytes += len(piece.data)
            self._unpacker = None

    def _collect(self, piece: Piece) -> None:
        # Blocks consist of words; decoders need none of perf's own records of other sizes.
        if len(piece.data) % 8 == 0:
            self._collected.append(bytes(piece.data))
            self._collected_bytes += len(piece.data)

    def _block(self) -> RecordBlock:
        data = b"".join(self._collected)
        self._collected.clear()
        self._collected_bytes = 0
        if self._metadata.order == ">":
            data = to_little_endian(data, self._metadata.events)
        return RecordBlock(memoryview(data), self._place.origin)
