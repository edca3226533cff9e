"""The symbolizers of an archive: one collects answers during a report, one returns them later.

The latter opens no file. Images are kept in pieces, of which it makes an ELF file again. Headers
and notes, a few KB, have the offset of each address, and the build id. The rest of the file reads
as zeros, which take no memory.
"""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING

import numpy as np

from prospect.archived.archived_limits import DEEPEST, LARGEST_IMAGE_BYTES, LARGEST_NOTE_BYTES
from prospect.archived.kept_answers import Asked, Code, FrameTree, Image, ObjectLines, owner_of
from prospect.columns.sorting import run_lengths, run_starts
from prospect.elf import elf_layout
from prospect.elf.go_table import read_go_table
from prospect.lines.symcache import no_frames
from prospect.profile.model import KIND_VDSO, SOURCE_KINDS
from prospect.profile.naming import NameSource
from prospect.records import replace
from prospect.symbols.images.recorded_images import RecordedImages, restored
from prospect.symbols.objects import Missing
from prospect.symbols.resolution import Resolution, concatenated, nameless, without_unused
from prospect.symbols.symbolizer import KERNEL_KINDS, Symbolizer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from prospect.abi.recorded_facts import RecordingInfo
    from prospect.archived.kept_answers import Answers, Owner
    from prospect.columns.array_types import I32, I64, U64
    from prospect.elf.image import ElfImage
    from prospect.lines.symcache import Frames
    from prospect.profile.run_info import ProcessNote
    from prospect.symbols.images.image_files import FoundImage
    from prospect.symbols.naming_options import SymbolOptions
    from prospect.symbols.objects import HitObject, ObjectKey

_PIECE_BYTES = 1 << 30
_CALL_FRAMES = (b".eh_frame_hdr", b".eh_frame", b".debug_frame", b".sframe")


def kept_pieces(
    image: ElfImage, *, whole: bool, call_frames: bool
) -> tuple[tuple[int, bytes], ...]:
    """Return the pieces of a file that are archived, each with its offset."""
    if whole:
        ranges = [(at, at + _PIECE_BYTES) for at in range(0, len(image.data), _PIECE_BYTES)]
    else:
        ranges = _joined(_header_ranges(image, call_frames=call_frames))
    return tuple((start, bytes(image.data[start:end])) for start, end in ranges)


def restored_image(key: ObjectKey, number: int, image: Image) -> FoundImage | Missing:
    """Return the file of an archived image; `number` is unique within the archive."""
    if 0 < image.size <= LARGEST_IMAGE_BYTES:
        found = restored(key.path, number, image.size, image.pieces)
        if not isinstance(found, NameSource):
            return found
    return Missing(NameSource.NO_ELF, "the archive's copy of it cannot be read")


def _header_ranges(image: ElfImage, *, call_frames: bool) -> Iterator[tuple[int, int]]:
    header_type = elf_layout.EHDR_64 if image.is_64 else elf_layout.EHDR_32
    header = np.frombuffer(image.data, header_type, 1)[0]
    yield 0, header_type.itemsize
    for offset, size, count in (
        (header["phoff"], header["phentsize"], len(image.segments)),
        (header["shoff"], header["shentsize"], len(image.sections)),
    ):
        yield int(offset), int(offset) + int(size) * count
    if int(header["shstrndx"]) < len(image.sections):
        yield _range(image, int(header["shstrndx"]), LARGEST_NOTE_BYTES)
    for note in image.segments[image.segments["type"] == elf_layout.PT_NOTE]:
        start = int(note["offset"])
        yield start, start + min(int(note["filesz"]), LARGEST_NOTE_BYTES)
    for name in _CALL_FRAMES if call_frames else ():
        row = image.find_section(name)
        if row >= 0:
            yield _range(image, row, len(image.data))
    go_table = read_go_table(image) if call_frames else None
    if go_table is not None:
        yield from go_table.ranges


def _range(image: ElfImage, row: int, most_bytes: int) -> tuple[int, int]:
    start = int(image.sections["offset"][row])
    return start, start + min(int(image.sections["size"][row]), most_bytes)


def _joined(ranges: Iterator[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join overlapping ranges."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    return joined


class Collector:
    """The questions and answers so far; public attributes are those of `Answers`."""

    def __init__(self, *, whole_images: bool = False, call_frames: bool = False) -> None:
        """Choose the parts of images to keep besides headers: all bytes, or call frames."""
        self._whole_images = whole_images
        self._call_frames = call_frames
        self.limits: tuple[str, ...] = ()
        self.process_notes: tuple[ProcessNote, ...] = ()
        self.names: dict[Owner, list[Asked]] = {}
        self.images: dict[ObjectKey, Image | Missing] = {}
        self.code: dict[tuple[Owner, int], Code] = {}
        self.source: dict[tuple[str, int], str] = {}
        self.jit_dumps: dict[int, bytes | memoryview] = {}
        # Addresses of each object, and the innermost frame at each.
        self._leaves: dict[ObjectKey, list[tuple[U64, I32]]] = {}
        self._notes: dict[ObjectKey, str] = {}
        self._nodes: dict[tuple[int, int, int, int], int] = {}
        self._texts: dict[str, int] = {}

    def add_names(self, owner: Owner, address: U64, answer: Resolution) -> None:
        """Keep the answer to a question."""
        known = self.names.setdefault(owner, [])
        if not any(np.array_equal(one.address, address) for one in known):
            known.append(Asked(address.copy(), answer))

    def add_image(self, key: ObjectKey, found: FoundImage | Missing) -> None:
        """Keep an image, or why there is none, unless there is one, such as that of a vdso."""
        if isinstance(found, Missing):
            self.images.setdefault(key, found)
        elif not isinstance(self.images.get(key), Image):
            whole, call_frames = self._whole_images, self._call_frames
            pieces = kept_pieces(found.image, whole=whole, call_frames=call_frames)
            self.images[key] = Image(len(found.image.data), pieces)

    def add_vdso(self, key: ObjectKey, image: ElfImage | Missing) -> None:
        """Keep the whole image of a vdso, or why there is none."""
        if isinstance(image, Missing):
            self.add_image(key, image)
        else:
            pieces = kept_pieces(image, whole=True, call_frames=True)
            self.images[key] = Image(len(image.data), pieces)

    def add_frames(self, key: ObjectKey, address: U64, frames: Frames, note: str) -> None:
        """Keep the frames of addresses of an object."""
        self._notes[key] = note
        self._leaves.setdefault(key, []).append((address, self._leaf_nodes(frames)))

    def add_source(self, files: Sequence[str], texts: Mapping[tuple[int, int], str]) -> None:
        """Keep the text of source lines, by (row of `files`, number)."""
        for (file, line), text in texts.items():
            self.source[files[file], line] = text

    def lines(self) -> tuple[dict[ObjectKey, ObjectLines], FrameTree]:
        """Return the source lines of all objects, and their frames."""
        lines = {}
        for key, leaves in self._leaves.items():
            address, first = np.unique(np.concatenate([at for at, _ in leaves]), return_index=True)
            node = np.concatenate([node for _, node in leaves]).take(first)
            start = run_starts(node)
            lines[key] = ObjectLines(address.take(start), node.take(start), self._notes[key])
        rows = np.array(list(self._nodes), np.int64).reshape(-1, 4)
        tree = FrameTree(
            parent=rows[:, 0].astype(np.int32),
            name=rows[:, 1].astype(np.int32),
            file=rows[:, 2].astype(np.int32),
            line=rows[:, 3].astype(np.uint32),
            texts=list(self._texts),
        )
        return lines, tree

    def _leaf_nodes(self, frames: Frames) -> I32:
        """Return the row of the innermost frame of each address, -1 if it has none."""
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

    def _text_rows(self, texts: Iterable[str]) -> I64:
        rows = [self._texts.setdefault(text, len(self._texts)) for text in texts]
        return np.array([*rows, -1], np.int64)


class CollectingSymbolizer(Symbolizer):
    """Names addresses and keeps the answers."""

    def __init__(self, options: SymbolOptions, collector: Collector) -> None:
        super().__init__(options)
        self._collector = collector
        self.images = CollectingImages(options, collector)

    def vdso(self, key: ObjectKey, pids: Sequence[int]) -> ElfImage | Missing:
        """Find the image of a vdso as `Symbolizer` does."""
        found = super().vdso(key, pids)
        self._collector.add_vdso(key, found)
        return found

    def resolve(self, key: ObjectKey, pids: Sequence[int], address: U64) -> Resolution:
        """Name addresses as `Symbolizer` does."""
        answer = super().resolve(key, pids, address)
        if key.kind not in SOURCE_KINDS:  # the recording has the names of these
            self._collector.add_names(owner_of(key, pids), address, answer)
        return answer


class CollectingImages(RecordedImages):
    """Finds images and keeps their pieces."""

    def __init__(self, options: SymbolOptions, collector: Collector) -> None:
        super().__init__(options)
        self._collector = collector

    def find(self, key: ObjectKey, pids: Sequence[int]) -> FoundImage | Missing:
        """Find the file that was mapped as `RecordedImages` does."""
        found = super().find(key, pids)
        self._collector.add_image(key, found)
        return found


def _distinct_rows(rows: I64) -> tuple[I64, NDArray[np.intp]]:
    """Return the distinct rows, and for each row its place among them."""
    order = np.lexsort(rows.T)
    ordered = rows.take(order, axis=0)
    start = run_starts(*ordered.T)
    place = np.empty(len(rows), np.intp)
    place[order] = np.repeat(np.arange(len(start)), run_lengths(start, len(rows)))
    return ordered.take(start, axis=0), place


NOT_ARCHIVED = "the archive has nothing of it: archive with --whole-images"


class ArchivedSymbolizer(Symbolizer):
    """Names the addresses of a recording by its archive, and by a given kernel listing (-K, -L)."""

    def __init__(self, options: SymbolOptions, answers: Answers) -> None:
        super().__init__(options)
        self._answers = answers
        self._is_kernel_given = bool(options.system_map or options.kernel_image)
        self._archived = ArchivedImages(options, answers)
        self.images = self._archived

    def fetch(self, objects: Iterable[HitObject], announce: Callable[[str], None] | None) -> None:
        """Do nothing: the archive has the names of servers' files."""

    def vdso(self, key: ObjectKey, pids: Sequence[int]) -> ElfImage | Missing:  # noqa: ARG002 - as in Symbolizer
        """Return the vdso of the recorded machine."""
        found = self._archived.image_of(key)
        return found if isinstance(found, Missing) else found.image

    def resolve(self, key: ObjectKey, pids: Sequence[int], address: U64) -> Resolution:
        """Return the archived names of addresses."""
        if (self._is_kernel_given and key.kind in KERNEL_KINDS) or key.kind in SOURCE_KINDS:
            return super().resolve(key, pids, address)
        asked = self._answers.names.get(owner_of(key, pids), [])
        for one in asked:
            if np.array_equal(one.address, address):
                return one.answer
        path = key.path.decode(errors="surrogateescape")
        if not any(len(one.address) for one in asked):
            names = nameless(address, NameSource.NO_FILE)
            return Resolution(names, path, key.kind, key.build_id.hex(), NOT_ARCHIVED)
        covering = [one for one in asked if np.isin(address, one.address).all()]
        return _merged(covering[:1] or asked, address)


class ArchivedImages(RecordedImages):
    """Makes images of their pieces in the archive."""

    def __init__(self, options: SymbolOptions, answers: Answers) -> None:
        super().__init__(options)
        self._answers = answers
        self._restored: dict[ObjectKey, FoundImage | Missing] = {}

    def find(self, key: ObjectKey, pids: Sequence[int]) -> FoundImage | Missing:  # noqa: ARG002 - as in RecordedImages
        """Return the mapped file, or why there was none; a vdso is no file."""
        if key.kind == KIND_VDSO:
            return Missing(NameSource.NO_FILE, "it is not a file")
        return self.image_of(key)

    def find_all(
        self,
        objects: Iterable[tuple[ObjectKey, Sequence[int]]],
        needs_debug_file: Callable[[FoundImage], bool],
        share: float = 1.0,
    ) -> None:
        """Do nothing, as no file is opened."""

    def image_of(self, key: ObjectKey) -> FoundImage | Missing:
        """Return an archived image, or why there is none."""
        if key not in self._restored:
            kept: FoundImage | Image | Missing
            kept = self._answers.images.get(key, Missing(NameSource.NO_FILE, NOT_ARCHIVED))
            if isinstance(kept, Image):
                kept = restored_image(key, len(self._restored), kept)
            self._restored[key] = kept
        return self._restored[key]

    def is_other(self, key: ObjectKey, *, is_only: bool) -> bool:  # noqa: ARG002 - as in RecordedImages
        """Return whether the archive has names of the file apart from those of its build id."""
        return owner_of(key._replace(build_id=b""), ()) in self._answers.names

    def debug_file(self, key: ObjectKey, found: FoundImage) -> None:
        """Return None: the archive has the names and lines of debug files."""


def restored_info(info: RecordingInfo, answers: Answers) -> RecordingInfo:
    """Return a recording's facts from before it became an archive.

    Jitdump files in the archive count as copies by the recorder.
    """
    copies = list(info.extras.get("jit_files") or ())
    copies += [
        {
            "pid": pid,
            "kind": "dump",
            "zlib": base64.b64encode(zlib.compress(content)).decode("ascii"),
        }
        for pid, content in answers.jit_dumps.items()
    ]
    return info._replace(
        origin=answers.origin,
        recorded_at=answers.recorded_at,
        extras=info.extras | {"jit_files": copies} if answers.jit_dumps else info.extras,
    )


def archived_frames(answers: Answers, key: ObjectKey, svma: U64) -> tuple[Frames, str]:
    """Return the frames of addresses u64[n] of an object, and a note on missing lines."""
    lines = answers.lines.get(key)
    if lines is None or answers.tree is None:
        return no_frames(len(svma)), NOT_ARCHIVED
    row = np.searchsorted(lines.start, svma, side="right") - 1
    leaf = np.append(lines.node, np.int32(-1)).take(row)
    return answers.tree.frames(leaf), lines.note


def archived_source(
    answers: Answers, files: Sequence[str], wanted: Iterable[tuple[int, int]]
) -> dict[tuple[int, int], str]:
    """Return the text of source lines, by (row of `files`, line number)."""
    source = answers.source
    return {
        (file, line): source[files[file], line]
        for file, line in wanted
        if file >= 0 and (files[file], line) in source
    }


def _merged(asked: Sequence[Asked], address: U64) -> Resolution:
    """Return the names of addresses from all questions about one object."""
    known = np.concatenate([one.address for one in asked])
    names = concatenated([one.answer.named for one in asked])
    order = np.argsort(known, kind="stable")
    place = np.searchsorted(known.take(order), address)
    at = order.take(np.minimum(place, len(order) - 1))
    is_known = known.take(at) == address
    names = replace(
        names,
        address=np.where(is_known, names.address.take(at), address),
        function=np.where(is_known, names.function.take(at), np.int32(-1)),
        reason=np.where(is_known, names.reason.take(at), np.uint8(NameSource.NO_COVER)),
    )
    answer = asked[0].answer
    kinds = {path: kind for one in asked for path, kind in one.answer.part_kinds.items()}
    return replace(answer, named=without_unused(names), part_kinds=kinds)
