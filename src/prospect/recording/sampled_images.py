"""Choose the copies of mapped files that a recording keeps: those with addresses in records.

A file is kept if any word of the records is an address in one of its mappings: of a sample, its
call chain, its registers or its copy of a stack. So names and callers have all files that they
need.
"""

from __future__ import annotations

import itertools
import mmap
import os

from prospect.abi.recorded_facts import KeptImage
from prospect.light import Descriptor
from prospect.perfdata.format import PERF_RECORD_COMPRESSED
from prospect.perfdata.kept_images import encode_images

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.capture.machine.image_copies import ImageCopy
    from prospect.capture.machine.mapped_files import MappedFiles

_WORDS_AT_A_TIME = 1 << 17
# Bounds of a search without numpy, whose import takes 60 ms: bytes, and addresses of other files.
_SEARCHED_BYTES = 1 << 25
_OTHERS = 1 << 13
_WORD_BYTES = 8


def sampled_images(files: MappedFiles, output_fd: int, begin: int, *, packs: bool) -> bytes:
    """Return the section of the kept copies, empty for none.

    Args:
        files: has the copies.
        output_fd: the recording.
        begin: the place of its first record; the last one ends with the file.
        packs: whether to compress the content.
    """
    are_met = met(files.copies, _words(output_fd, begin))
    kept = list(itertools.compress(files.copies, are_met))
    if not kept:
        return b""
    with mmap.mmap(files.copies_fd, 0, prot=mmap.PROT_READ) as copies:
        images = (_kept_image(copy, copies) for copy in kept)
        return encode_images(images, packs=packs)


def _kept_image(copy: ImageCopy, copies: mmap.mmap) -> KeptImage:
    end = copy.at + sum(length for _, length in copy.pieces)
    return KeptImage(
        file=copy.file,
        build_id=copy.build_id,
        path=copy.path,
        size=copy.size,
        pieces=tuple(copy.pieces),
        content=lambda: copies[copy.at : end],
        modified_ns=copy.modified_ns,
    )


def _words(fd: int, begin: int) -> memoryview:
    size = os.fstat(fd).st_size // _WORD_BYTES * _WORD_BYTES
    if size <= begin:
        return memoryview(b"").cast("Q")
    with Descriptor(os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)) as again:
        mapped = mmap.mmap(again, size, prot=mmap.PROT_READ)
    return memoryview(mapped)[begin:].cast("Q")


def met(copies: Sequence[ImageCopy], words: memoryview) -> list[bool]:
    """Return bool[copy]: whether a word is an address in its mappings; true for packed records.

    The start of a mapping does not count, because the record of the mapping has it.
    """
    if len(words) and words[0] & 0xFFFF_FFFF == PERF_RECORD_COMPRESSED:
        return [True] * len(copies)
    highs = sum(len(_highs(*span)[1]) for copy in copies for span in copy.ranges)
    if highs * words.nbytes > _SEARCHED_BYTES:
        return _met_by_many(copies, words)
    # A copy, because CPython's search in a mapped file may read one byte after its end.
    content = words.tobytes()
    are_met = [_is_met(copy, content) for copy in copies]
    unsure = [copy for copy, is_met in zip(copies, are_met, strict=True) if is_met is None]
    sure = iter(_met_by_many(unsure, words) if unsure else ())
    return [next(sure) if is_met is None else is_met for is_met in are_met]


def _highs(begin: int, end: int) -> tuple[int, range]:
    """Return the number of low bytes in which addresses of a range differ, and the high parts."""
    low_bytes = 2 if end - begin < 1 << 18 else 3
    bits = 8 * low_bytes
    return low_bytes, range((begin + 1) >> bits, ((end - 1) >> bits) + 1)


def _is_met(copy: ImageCopy, content: bytes) -> bool | None:
    """Return whether words have an address of a copy, None after many near misses."""
    others = 0
    for begin, end in copy.ranges:
        low_bytes, highs = _highs(begin, end)
        for high in highs:
            pattern = high.to_bytes(_WORD_BYTES - low_bytes, "little")
            at = content.find(pattern, low_bytes) - low_bytes
            while at >= 0:
                word = int.from_bytes(content[at : at + _WORD_BYTES], "little")
                if at % _WORD_BYTES == 0 and begin < word < end:
                    return True
                others += 1
                if others > _OTHERS:
                    return None
                at = content.find(pattern, at + low_bytes + 1) - low_bytes
    return False


def _met_by_many(copies: Sequence[ImageCopy], words: memoryview) -> list[bool]:
    import numpy as np  # noqa: PLC0415 - takes longer than a small recording

    ranges = [(begin + 1, end) for copy in copies for begin, end in copy.ranges]
    edges = np.unique(np.array(ranges, np.uint64))
    if not len(edges):
        return [False] * len(copies)
    is_between = np.zeros(len(edges) + 1, np.bool_)
    numbers = np.frombuffer(words, np.uint64)
    for at in range(0, len(numbers), _WORDS_AT_A_TIME):
        some = numbers[at : at + _WORDS_AT_A_TIME]
        some = some[(some >= edges[0]) & (some < edges[-1])]
        is_between[np.searchsorted(edges, some, side="right")] = True
    counts = np.append(0, np.cumsum(is_between))
    bounds = np.searchsorted(edges, np.array(ranges, np.uint64).reshape(-1, 2)) + 1
    is_met = iter((counts[bounds[:, 1]] > counts[bounds[:, 0]]).tolist())
    return [any(list(itertools.islice(is_met, len(copy.ranges)))) for copy in copies]
