"""The image at an address of a recorded process, and the layout of its frames.

`RecordedCode` is an `unwind.interface.CodeFinder`. It finds each image once, by the rules of
naming, and reads its call-frame rows once.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import constants as abi
from prospect.assembly.assembly_limits import LONGEST_RULES_S, MOST_RULES_SHARE
from prospect.assembly.placing.placement import Addresses, place
from prospect.columns.sorting import distinct
from prospect.elf import frame_rules as rules
from prospect.elf.frame_rows import FrameRows, frame_row_costs, read_frame_rows
from prospect.elf.image import NO_ADDRESS
from prospect.files.child import Child
from prospect.files.held_files import lend
from prospect.files.rights import is_trusted
from prospect.profile.model import KIND_ANON, KIND_ELF, KIND_JIT, KIND_VDSO
from prospect.symbols.images.recorded_images import key_of
from prospect.symbols.objects import Missing
from prospect.symbols.table_cache import FRAMES_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prospect.abi.recorded_facts import RecordingInfo
    from prospect.assembly.stacks.user_stacks import UserContexts
    from prospect.columns.array_types import I32, U64, Bools
    from prospect.elf.image import ElfImage
    from prospect.spaces.process_history import ProcessHistory
    from prospect.symbols.images.image_files import FoundImage
    from prospect.symbols.objects import ObjectKey
    from prospect.symbols.symbolizer import Symbolizer
    from prospect.symbols.table_cache import SymbolCache

_NO_OBJECT = -1
_NOT_MET = -2
_ROW_BYTES = 16  # of FrameRows: u64 start, i64 rule
# A child computes rows that take more memory than this.
_LARGE_BYTES = 16 << 20


class RecordedCode:
    """The code of a recording; an `unwind.interface.CodeFinder` over rows of `UserContexts`.

    Attributes:
        keys: the objects so far, in the rows that `locate` returns.
    """

    def __init__(
        self,
        contexts: UserContexts,
        history: ProcessHistory,
        info: RecordingInfo,
        symbolizer: Symbolizer,
    ) -> None:
        self._contexts = contexts
        self._history = history
        self._info = info
        self._symbolizer = symbolizer
        self._row_of: dict[ObjectKey, int] = {}
        # Code of JITs: its row by key, and known frames by row.
        self._code_rows: dict[ObjectKey, int] = {}
        self._frames: dict[int, FrameRows] = {}
        # By row; code of a JIT has no image.
        self._images: dict[int, tuple[ElfImage, FoundImage | None]] = {}
        self.keys: list[ObjectKey] = []
        # By mapping, the last for none: the object, and the difference of its offsets and AVMAs.
        # Code of JITs is identified by address, and stays _NOT_MET.
        mappings = len(history.mappings)
        self._object_row = np.append(np.full(mappings, _NOT_MET, np.int32), np.int32(_NO_OBJECT))
        self._shift = np.zeros(mappings + 1, np.uint64)
        # Called at each step of unwinding; each call would open the file.
        self._is_other = functools.cache(symbolizer.images.is_other)

    def locate(self, context: I32, address: U64) -> tuple[I32, U64, Bools]:
        """Find the images at addresses; see `unwind.interface.CodeFinder.locate`."""
        contexts = self._contexts
        mapping = self._history.address_spaces.locate(
            contexts.space.take(context), contexts.epoch.take(context), address
        )
        # Each step of unwinding needs a few places, most of them in the same mappings.
        met = self._object_row.take(mapping)
        object_row, svma = met.copy(), address + self._shift.take(mapping)
        for row in distinct(met).tolist():
            rows = np.flatnonzero(met == row)
            if row == _NOT_MET:
                object_row[rows], svma[rows] = self._identified(
                    context.take(rows), address.take(rows)
                )
            elif row >= 0:
                object_row[rows], svma[rows] = self._stated(row, svma.take(rows))
        # Frames in memory that is not executable are those of interpreters; no call returns there.
        prot = np.append(self._history.mappings.prot, np.uint32(0)).take(mapping)
        is_code = (prot & abi.PROT_EXEC) != 0
        return np.where(is_code, object_row, np.int32(_NO_OBJECT)), svma, is_code

    def _identified(self, context: I32, address: U64) -> tuple[I32, U64]:
        """Find the objects at addresses in new mappings, and their SVMAs."""
        contexts = self._contexts
        placed = place(
            Addresses(
                process_row=contexts.process_row.take(context),
                space=contexts.space.take(context),
                epoch=contexts.epoch.take(context),
                mode=np.full(len(context), abi.PERF_RECORD_MISC_USER, np.uint8),
                address=address,
            ),
            self._history,
            self._info,
            self._is_other,
        )
        object_row = np.full(len(address), _NO_OBJECT, np.int32)
        svma = address.copy()
        self._find_all(zip(placed.keys, placed.pids, strict=True))
        order, starts = placed.sorted_places()
        for begin, end in zip(starts, [*starts[1:], len(order)], strict=True):
            rows = order[begin:end]
            at = int(placed.object_index[rows[0]])
            if (row := self._code_row(placed.keys[at])) != _NO_OBJECT:
                object_row[rows], svma[rows] = row, placed.address.take(rows)
                continue
            if placed.keys[at].kind in {KIND_ANON, KIND_JIT}:
                is_known = self._symbolizer.are_trampolines(
                    placed.keys[at], placed.pids[at], placed.address.take(rows)
                )
                if is_known.any():
                    object_row[rows[is_known]] = self._trampoline_row(placed.keys[at])
                continue
            row = self._row(placed.keys[at], placed.pids[at])
            mapping = placed.mapping_index.take(rows)
            self._object_row[mapping] = row
            if row != _NO_OBJECT:
                offset = placed.address.take(rows)
                self._shift[mapping] = offset - address.take(rows)
                object_row[rows], svma[rows] = self._stated(row, offset)
        return object_row, svma

    def _stated(self, row: int, offset: U64) -> tuple[I32, U64]:
        """Return the SVMAs of offsets in an image; no object for offsets without one."""
        stated = self._images[row][0].svma_of_offset(offset)
        is_stated = stated != NO_ADDRESS
        return np.where(is_stated, np.int32(row), np.int32(_NO_OBJECT)), stated

    def _find_all(self, objects: Iterable[tuple[ObjectKey, list[int]]]) -> None:
        """Find the files of objects, of those of other users the smallest first.

        A share of the memory is left for objects further up the stacks.
        """
        images = self._symbolizer.images
        new = (one for one in objects if one[0].kind == KIND_ELF and one[0] not in self._row_of)
        images.find_all(new, lambda _: True, MOST_RULES_SHARE)

    def _row(self, key: ObjectKey, pids: list[int]) -> int:
        """Return the row of an object, _NO_OBJECT if there is no image of it."""
        if key not in self._row_of:
            found = self._find(key, pids)
            self._row_of[key] = len(self.keys) if found else _NO_OBJECT
            if found:
                self._images[len(self.keys)] = found
                self.keys.append(key)
        return self._row_of[key]

    def _code_row(self, key: ObjectKey) -> int:
        """Return the row of code whose JIT describes the layout of its frames, else _NO_OBJECT."""
        if key.kind != KIND_JIT:
            return _NO_OBJECT
        if key not in self._code_rows:
            code = self._symbolizer.jit_code(key)
            frames = code.frame_rows() if code else None
            self._code_rows[key] = len(self.keys) if frames else _NO_OBJECT
            if frames:
                self._frames[len(self.keys)] = frames
                self.keys.append(key)
        return self._code_rows[key]

    def _trampoline_row(self, key: ObjectKey) -> int:
        if key not in self._row_of:
            rows = FrameRows(np.zeros(1, np.uint64), np.array([rules.TRAMPOLINE]))
            self._frames[len(self.keys)] = rows
            self._row_of[key] = len(self.keys)
            self.keys.append(key)
        return self._row_of[key]

    def _find(self, key: ObjectKey, pids: list[int]) -> tuple[ElfImage, FoundImage | None] | None:
        if key.kind == KIND_VDSO:
            vdso = self._symbolizer.vdso(key, pids)
            return None if isinstance(vdso, Missing) else (vdso, None)
        if key.kind != KIND_ELF:
            return None
        found = self._symbolizer.images.find(key, pids)
        return None if isinstance(found, Missing) else (found.image, found)

    def rows_of(self, object_row: int) -> FrameRows | None:
        """Return the call-frame rows of an object; see `unwind.interface.CodeFinder.rows_of`."""
        if object_row in self._frames:
            return self._frames[object_row]
        image, found = self._images[object_row]
        if found is None:
            return read_frame_rows(image)
        debug = self._symbolizer.images.debug_file(self.keys[object_row], found)
        debug_image = debug.image if debug else None
        if not self._is_affordable(self.keys[object_row], found, debug_image):
            return None
        cache = self._symbolizer.cache
        key = key_of(found, debug) if cache else None
        if cache is None or key is None:
            return read_frame_rows(image, debug_image)
        kept = cache.load_bytes(key, FRAMES_SUFFIX)
        if kept is None:
            kept = _made_apart(cache, key, image, debug_image)
        if kept is not None and len(kept) % _ROW_BYTES == 0:
            return _mapped_rows(kept)
        return _made(cache, key, image, debug_image)

    def _is_affordable(self, key: ObjectKey, found: FoundImage, debug: ElfImage | None) -> bool:
        """Return whether the call-frame rows of another user's files fit into the budget."""
        if is_trusted(found.file.owner):
            return True
        peak_bytes, kept_bytes = _costs(found.image, debug)
        return self._symbolizer.admit(key, "unwinding", peak_bytes, kept_bytes)


def _costs(image: ElfImage, debug: ElfImage | None) -> tuple[int, int]:
    """Return the memory for call-frame rows, in bytes: while they are computed, and after that."""
    costs = [frame_row_costs(one) for one in (image, debug) if one]
    peak_bytes, kept_bytes = (sum(column) for column in zip(*costs, strict=True))
    return peak_bytes, kept_bytes


def _made(
    cache: SymbolCache, key: str, image: ElfImage, debug: ElfImage | None
) -> FrameRows | None:
    """Compute call-frame rows, and store them in the cache."""
    made = read_frame_rows(image, debug)
    content = made.start.tobytes() + made.rule.tobytes() if made else b""
    cache.store_bytes(key, FRAMES_SUFFIX, content)
    return made


def _made_apart(
    cache: SymbolCache, key: str, image: ElfImage, debug: ElfImage | None
) -> memoryview | None:
    """Let a child compute the rows of a large image into a file, and map it.

    So a process that unwinds for days has them in the page cache only, which the kernel can
    reclaim.

    Returns:
        The result of `SymbolCache.load_bytes`; None if the image is small or there is no child.
    """
    if _costs(image, debug)[0] < _LARGE_BYTES:
        return None

    def make(_stop_fd: int) -> None:
        _made(cache, key, image, debug)

    child = Child()
    read = [image.data, debug.data] if debug else [image.data]
    try:
        for contents in read:
            lend(contents, to_children=True)
        child.start(make, ())
    except OSError:
        return None
    finally:
        for contents in read:
            lend(contents, to_children=False)
    if not child.reap(LONGEST_RULES_S):
        child.kill()
        return memoryview(b"")  # this process would need as long
    return cache.load_bytes(key, FRAMES_SUFFIX)


def _mapped_rows(kept: memoryview) -> FrameRows | None:
    rows = len(kept) // _ROW_BYTES
    start, rule = np.frombuffer(kept, "<u8", rows), np.frombuffer(kept, "<i8", rows, 8 * rows)
    return FrameRows(start, rule) if rows else None
