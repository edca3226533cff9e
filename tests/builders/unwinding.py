"""From a perf.data file to what `unwind` takes in, by the project's own decoding; on x86-64."""

from __future__ import annotations

import mmap
from functools import cache
from pathlib import Path

import numpy as np

from prospect.assembly.stacks.user_stacks import find_user_contexts
from prospect.elf import elf_layout
from prospect.elf.frame_rows import read_frame_rows
from prospect.elf.image import ElfImage
from prospect.elf.symbols import read_symbols
from prospect.errors import ElfError
from prospect.events.decode import decode
from prospect.perfdata.reader import open_recording
from prospect.spaces.process_history import build_spaces
from prospect.symbols.images.image_files import read_own_vdso
from prospect.unwind.interface import DWARF_OF_PERF_X86_64, UnwindInput

PERF_SP, PERF_FP, PERF_PC = 7, 6, 8


@cache
def image_of(path):
    """The image of a file by its path, None for what is none."""
    try:
        if path == b"[vdso]":
            return read_own_vdso()
        with Path(path.decode()).open("rb") as file:
            return ElfImage.parse(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError, ElfError):
        return None


@cache
def rows_of_image(path):
    image = image_of(path)
    return None if image is None else read_frame_rows(image)


class Finder:
    """`CodeFinder` over a replayed recording."""

    def __init__(self, history, contexts):
        self._history, self._contexts = history, contexts
        mappings = history.mappings
        self.paths = [history.names[row] for row in range(len(history.names))]
        self._name = mappings.name
        self._shift = mappings.pgoff - mappings.start

    def locate(self, context, address):
        space, epoch = self._contexts.space.take(context), self._contexts.epoch.take(context)
        mapping = self._history.address_spaces.locate(space, epoch, address)
        is_mapped = mapping >= 0
        row = np.maximum(mapping, 0)
        found = np.where(is_mapped, self._name.take(row), -1).astype(np.int32)
        offset = address + self._shift.take(row)
        svma = np.zeros(len(address), np.uint64)
        for each in np.unique(found[found >= 0]).tolist():
            image, of_each = image_of(self.paths[each]), found == each
            if image is None:
                found[of_each] = -1
            else:
                svma[of_each] = image.svma_of_offset(offset[of_each])
        return found, svma, is_mapped

    def rows_of(self, object_row):
        return rows_of_image(self.paths[object_row])


def read_recording(path):
    """Return the input, the finder, and the samples' rows that the input's are of."""
    with open_recording(str(path)) as recording:
        events = decode(recording.blocks(), recording.info.events, recording.damage)
    samples, user = events.samples, events.samples.user
    history = build_spaces(events)
    contexts = find_user_contexts(samples, history.timeline)
    registers = {
        DWARF_OF_PERF_X86_64[number]: user.register(number)
        for number in user.register_numbers
        if number < len(DWARF_OF_PERF_X86_64) and DWARF_OF_PERF_X86_64[number] >= 0
    }
    given = UnwindInput(
        machine=elf_layout.EM_X86_64,
        context=contexts.of_sample.take(user.sample),
        pc=user.register(PERF_PC),
        sp=user.register(PERF_SP),
        fp=user.register(PERF_FP),
        stack_block=user.stack_block,
        stack_begin=user.stack_begin,
        stack_bytes=user.stack_bytes.astype(np.int64),
        blocks=user.blocks,
        registers=registers,
    )
    return given, Finder(history, contexts), user.sample, events, history


def functions_of(path):
    """The functions of an image by its symbols: start u64[f], end u64[f], name."""
    symbols = read_symbols(image_of(path), b".symtab")
    rows = np.flatnonzero((symbols.kind == 2) & (symbols.value > 0) & (symbols.size > 0))
    rows = rows[np.argsort(symbols.value[rows], kind="stable")]
    start = symbols.value[rows].astype(np.uint64)
    text = bytes(symbols.strings)
    names = [text[at : text.index(b"\0", at)].decode() for at in symbols.name[rows].tolist()]
    return start, start + symbols.size[rows].astype(np.uint64), names


def name_sites(sites, finder, path):
    """Name the places that lie in one image; "" for those elsewhere."""
    start, end, names = functions_of(path)
    row = np.searchsorted(start, sites.svma, side="right") - 1
    is_in = np.array([o >= 0 and finder.paths[o] == path for o in sites.object.tolist()])
    is_in &= (row >= 0) & (sites.svma < end.take(np.maximum(row, 0)))
    return [names[r] if ok else "" for r, ok in zip(row.tolist(), is_in.tolist(), strict=True)]
