"""A recording that must be walked: pipes, compressed records, trace data, the other byte order.

Comes in: pieces of the byte stream. Goes out: RecordBlocks of whole little-endian records, and
the metadata that stood between them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.abi.recording import RecordBlock
from prospect.errors import RecordingError
from prospect.perfdata import format as fmt
from prospect.perfdata.byteorder import to_little_endian
from prospect.perfdata.chain import RecordChain
from prospect.perfdata.compression import Unpacker, compressed_payload
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prospect.perfdata.chain import Piece
    from prospect.perfdata.metadata import Metadata

_BLOCK_BYTES = 8 << 20
_COMPRESSED = frozenset({fmt.PERF_RECORD_COMPRESSED, fmt.PERF_RECORD_COMPRESSED2})
# What stands behind these is no part of the chain, so they cannot stay in a block.
_WITH_PAYLOAD = frozenset({fmt.PERF_RECORD_AUXTRACE, fmt.PERF_RECORD_HEADER_TRACING_DATA})


class StreamPlace(NamedTuple):
    """Where a stream of records stands.

    Attributes:
        origin: goes into the blocks.
        offset: where the stream begins in its file.
        may_end_cut: whether the recording was cut at its end, within a record maybe.
    """

    origin: str
    offset: int
    may_end_cut: bool


class RecordStream:
    """Reads a stream of records piece by piece.

    Args:
        pieces: the stream's bytes, in pieces of any size.
        metadata: gets the metadata records.
        damage: gets a sentence for what breaks the stream.
        place: where the stream stands.
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
        """Of records that are there and could not be read; complete at the end of `blocks`."""
        broken = self._chain.unread_bytes + self._unpacked.unread_bytes + self._packed_unread_bytes
        cut = self._chain.cut_bytes + self._unpacked.cut_bytes
        return broken if self._place.may_end_cut else broken + cut

    def read_head(self) -> None:
        """Read on until the first of the kernel's records: the events stand before it."""
        for _ in self._steps:
            if self._collected:
                break
        if self._chain.tracing_data:
            content = memoryview(self._chain.tracing_data)
            self._metadata.add_feature(fmt.HEADER_TRACING_DATA, content)

    def blocks(self) -> Iterator[RecordBlock]:
        """Yield the records, in blocks of some megabytes."""
        for _ in self._steps:
            if self._collected_bytes >= _BLOCK_BYTES:
                yield self._block()
        if self._collected:
            yield self._block()
        self._damage += filter(None, (self._unpacked.finish(), self._chain.finish()))

    def _read(self, pieces: Iterable[bytes | memoryview]) -> Iterator[None]:
        """Take in the stream, coming to a halt after every record of perf or run of records."""
        for data in pieces:
            for piece in self._chain.feed(data):
                if piece.type in _COMPRESSED:
                    yield from self._unpack(piece)
                elif piece.type not in _WITH_PAYLOAD and not self._metadata.add_record(
                    piece.type, piece.data
                ):
                    self._collect(piece)
                yield

    def _unpack(self, piece: Piece) -> Iterator[None]:
        """Take in the records packed in one, coming to a halt after every piece of them."""
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
        # Blocks consist of words; perf's own records of other sizes mean nothing to a decoder.
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
