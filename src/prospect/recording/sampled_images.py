"""Choose the copies of mapped files that a recording keeps: those that records lead to.

A file is kept if any word of the records is an address in one of its mappings: of a sample, its
call chain, its registers or its copy of a stack. So none is missed that names or callers need.
"""

from __future__ import annotations

import bisect
import itertools
import mmap
import os

from prospect.abi.recorded_facts import KeptImage
from prospect.perfdata.format import PERF_RECORD_COMPRESSED
from prospect.perfdata.kept_images import encode_images

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.capture.machine.image_copies import ImageCopy
    from prospect.capture.machine.mapped_files import MappedFiles

_WORDS_AT_A_TIME = 1 << 17
# Those that are sorted at a time, and in all, before numpy is imported, which takes 60 ms: most
# files that are sampled at all are met by then.
_FEW_WORDS = 1 << 13
_MOST_SORTED = 1 << 16


def sampled_images(files: MappedFiles, output_fd: int, begin: int, *, packs: bool) -> bytes:
    """Return the section of the copies that are kept, empty for none.

    Args:
        files: has the copies.
        output_fd: the recording.
        begin: where its records begin; they reach to its end.
        packs: whether the content is compressed.
    """
    are_met = met(files.copies, _words(output_fd, begin))
    kept = [copy for copy, is_met in zip(files.copies, are_met, strict=True) if is_met]
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
    size = os.fstat(fd).st_size // 8 * 8
    if size <= begin:
        return memoryview(b"").cast("Q")
    again = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        mapped = mmap.mmap(again, size, prot=mmap.PROT_READ)
    finally:
        os.close(again)
    return memoryview(mapped)[begin:].cast("Q")


def met(copies: Sequence[ImageCopy], words: memoryview) -> list[bool]:
    """Return of which copies a mapping has an address among words, all if records are packed.

    The beginning of a mapping is no such address: the record of the mapping has it.
    """
    if len(words) and words[0] & 0xFFFF_FFFF == PERF_RECORD_COMPRESSED:
        return [True] * len(copies)
    are_met = [False] * len(copies)
    end = len(words)
    # From the end: the first records are those of processes that were there before.
    while end > max(0, len(words) - _MOST_SORTED):
        few = [*sorted(words[max(0, end - _FEW_WORDS) : end].tolist()), 1 << 64]
        end -= _FEW_WORDS
        for index in _unmet(are_met):
            are_met[index] = any(
                few[bisect.bisect_right(few, begin)] < limit
                for begin, limit in copies[index].ranges
            )
        if all(are_met):
            return are_met
    if end > 0:
        unmet = _unmet(are_met)
        many = _met_by_many([copies[index] for index in unmet], words[:end])
        for index, is_met in zip(unmet, many, strict=True):
            are_met[index] = is_met
    return are_met


def _unmet(are_met: Sequence[bool]) -> list[int]:
    return [index for index, is_met in enumerate(are_met) if not is_met]


def _met_by_many(copies: Sequence[ImageCopy], words: memoryview) -> list[bool]:
    import numpy as np  # noqa: PLC0415 - takes longer than a small recording

    ranges = [(begin + 1, end) for copy in copies for begin, end in copy.ranges]
    edges = np.unique(np.array(ranges, np.uint64))
    if not len(edges):
        return [False] * len(copies)
    is_between = np.zeros(len(edges) + 1, np.bool_)
    for at in range(0, len(words), _WORDS_AT_A_TIME):
        some = np.frombuffer(words[at : at + _WORDS_AT_A_TIME], np.uint64)
        some = some[(some >= edges[0]) & (some < edges[-1])]
        is_between[np.searchsorted(edges, some, side="right")] = True
    counts = np.append(0, np.cumsum(is_between))
    bounds = np.searchsorted(edges, np.array(ranges, np.uint64).reshape(-1, 2)) + 1
    is_met = iter((counts[bounds[:, 1]] > counts[bounds[:, 0]]).tolist())
    return [any(list(itertools.islice(is_met, len(copy.ranges)))) for copy in copies]
