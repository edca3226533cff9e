"""Keeps what this machine answers while a report is made, for an archive."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.archived.answers import DEEPEST, Asked, Code, FrameTree, Image, ObjectLines, owner_of
from prospect.archived.images import kept_pieces
from prospect.profile.model import KIND_PYTHON
from prospect.records import NamedTuple
from prospect.symbols.images.recorded_images import RecordedImages
from prospect.symbols.objects import Missing
from prospect.symbols.symbolizer import Symbolizer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from prospect.archived.answers import Owner
    from prospect.elf.image import ElfImage
    from prospect.lines.symcache import Frames
    from prospect.profile.run_info import ProcessNote
    from prospect.symbols.images.image_files import FoundImage
    from prospect.symbols.objects import ObjectKey
    from prospect.symbols.options import SymbolOptions
    from prospect.symbols.resolution import Resolution


class _Leaves(NamedTuple):
    """Addresses of one object, and the innermost frame at each."""

    address: NDArray[np.uint64]
    node: NDArray[np.int32]


class Collector:
    """What was asked and answered so far.

    Attributes:
        limits, process_notes, names, images, code, source, jit_dumps: as in `Answers`.
    """

    def __init__(self, *, whole_images: bool = False, call_frames: bool = False) -> None:
        """Collect nothing yet.

        Args:
            whole_images: keep images with all their bytes.
            call_frames: keep their call-frame information.
        """
        self._whole_images = whole_images
        self._call_frames = call_frames
        self.limits: tuple[str, ...] = ()
        self.process_notes: tuple[ProcessNote, ...] = ()
        self.names: dict[Owner, list[Asked]] = {}
        self.images: dict[ObjectKey, Image | Missing] = {}
        self.code: dict[tuple[Owner, int], Code] = {}
        self.source: dict[tuple[str, int], str] = {}
        self.jit_dumps: dict[int, bytes | memoryview] = {}
        self._leaves: dict[ObjectKey, list[_Leaves]] = {}
        self._notes: dict[ObjectKey, str] = {}
        self._nodes: dict[tuple[int, int, int, int], int] = {}
        self._texts: dict[str, int] = {}

    def add_names(self, owner: Owner, address: NDArray[np.uint64], answer: Resolution) -> None:
        """Keep the names of addresses that were asked for together."""
        known = self.names.setdefault(owner, [])
        if not any(np.array_equal(one.address, address) for one in known):
            known.append(Asked(address.copy(), answer))

    def add_image(self, key: ObjectKey, found: FoundImage | Missing) -> None:
        """Keep an image, or why there is none; what was found stays, such as a vdso, no file."""
        if isinstance(found, Missing):
            self.images.setdefault(key, found)
            return
        if isinstance(self.images.get(key), Image):
            return
        pieces = kept_pieces(found.image, whole=self._whole_images, call_frames=self._call_frames)
        self.images[key] = Image(len(found.image.data), pieces)

    def add_vdso(self, key: ObjectKey, image: ElfImage | Missing) -> None:
        """Keep the whole image of a vdso, or why there is none."""
        if isinstance(image, Missing):
            self.add_image(key, image)
        else:
            pieces = kept_pieces(image, whole=True, call_frames=True)
            self.images[key] = Image(len(image.data), pieces)

    def add_frames(
        self, key: ObjectKey, address: NDArray[np.uint64], frames: Frames, note: str
    ) -> None:
        """Keep the frames of addresses of an object."""
        self._notes[key] = note
        self._leaves.setdefault(key, []).append(_Leaves(address, self._leaf_nodes(frames)))

    def add_source(self, files: Sequence[str], texts: Mapping[tuple[int, int], str]) -> None:
        """Keep the text of source lines, by (row of `files`, number)."""
        for (file, line), text in texts.items():
            self.source[files[file], line] = text

    def lines(self) -> tuple[dict[ObjectKey, ObjectLines], FrameTree]:
        """Return the source lines of all objects, and their frames."""
        lines = {key: _stretches(leaves, self._notes[key]) for key, leaves in self._leaves.items()}
        rows = np.array(list(self._nodes), np.int64).reshape(-1, 4)
        tree = FrameTree(
            parent=rows[:, 0].astype(np.int32),
            name=rows[:, 1].astype(np.int32),
            file=rows[:, 2].astype(np.int32),
            line=rows[:, 3].astype(np.uint32),
            texts=list(self._texts),
        )
        return lines, tree

    def _leaf_nodes(self, frames: Frames) -> NDArray[np.int32]:
        """Return the row of the innermost frame of each address, -1 where it has none."""
        names = self._text_rows(name.decode("utf-8", "surrogateescape") for name in frames.names)
        files = self._text_rows(frames.files)
        depth = np.diff(frames.start)
        leaf = np.full(len(depth), -1, np.int64)
        for level in range(min(int(depth.max(initial=0)), DEEPEST)):
            deep = np.flatnonzero(depth > level)
            at = frames.start.take(deep) + level
            rows = np.stack(
                (
                    leaf.take(deep),
                    names.take(frames.name_index.take(at)),
                    files.take(frames.file_index.take(at)),
                    frames.line.take(at).astype(np.int64),
                ),
                axis=1,
            )
            distinct, place = _distinct_rows(rows)
            new = [
                self._nodes.setdefault((parent, name, file, line), len(self._nodes))
                for parent, name, file, line in distinct.tolist()
            ]
            leaf[deep] = np.array(new, np.int64).take(place)
        return leaf.astype(np.int32)

    def _text_rows(self, texts: Iterable[str]) -> NDArray[np.int64]:
        rows = [self._texts.setdefault(text, len(self._texts)) for text in texts]
        return np.array([*rows, -1], np.int64)


class CollectingSymbolizer(Symbolizer):
    """Names addresses and keeps what it said."""

    def __init__(self, options: SymbolOptions, collector: Collector) -> None:
        super().__init__(options)
        self._collector = collector
        self.images = CollectingImages(options, collector)

    def vdso(self, key: ObjectKey, pids: Sequence[int]) -> ElfImage | Missing:
        """Find the image of a vdso as `Symbolizer` does."""
        found = super().vdso(key, pids)
        self._collector.add_vdso(key, found)
        return found

    def resolve(
        self, key: ObjectKey, pids: Sequence[int], address: NDArray[np.uint64]
    ) -> Resolution:
        """Name addresses as `Symbolizer` does."""
        answer = super().resolve(key, pids, address)
        if key.kind == KIND_PYTHON:
            return answer  # the recording has it
        self._collector.add_names(owner_of(key, pids), address, answer)
        return answer


class CollectingImages(RecordedImages):
    """Finds images and keeps what of them is to be archived."""

    def __init__(self, options: SymbolOptions, collector: Collector) -> None:
        super().__init__(options)
        self._collector = collector

    def find(self, key: ObjectKey, pids: Sequence[int]) -> FoundImage | Missing:
        """Find the file that was mapped as `RecordedImages` does."""
        found = super().find(key, pids)
        self._collector.add_image(key, found)
        return found


def _distinct_rows(rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Return the distinct rows, and for each row its place among them."""
    order = np.lexsort(rows.T)
    ordered = rows.take(order, axis=0)
    is_new = np.ones(len(rows), np.bool_)
    is_new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    place = np.empty(len(rows), np.intp)
    place[order] = np.cumsum(is_new) - 1
    return ordered[is_new], place


def _stretches(leaves: list[_Leaves], note: str) -> ObjectLines:
    """Join what was asked at several times; neighbours with the same frame are one stretch."""
    address, first = np.unique(np.concatenate([one.address for one in leaves]), return_index=True)
    node = np.concatenate([one.node for one in leaves]).take(first)
    is_new = np.ones(len(address), np.bool_)
    is_new[1:] = node[1:] != node[:-1]
    return ObjectLines(address[is_new], node[is_new], note)
