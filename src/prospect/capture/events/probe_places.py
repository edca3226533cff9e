"""Probes in user space: ``FILE:FUNCTION`` or ``FILE+OFFSET`` → an event of the uprobe unit.

The probe ends with its event, and needs no tracefs.

Defined by: ``kernel/events/core.c`` (Linux 6.18), perf_uprobe_event_init(): config1 points at the
path, config2 is the offset in the file, and bit 0 of config asks for the return.
"""

from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING

from prospect.abi.attr import EventAttr
from prospect.capture.events import pmus
from prospect.capture.events.event_choice import ChosenEvent
from prospect.errors import ElfError, UsageError
from prospect.files.held_files import hold_contents
from prospect.light import Descriptor

if TYPE_CHECKING:
    from prospect.elf.image import ElfImage
    from prospect.elf.symbols import ElfSymbols

_UNIT = "uprobe"
_RETURN = "%return"
_OFFSET = re.compile(r"(.+)\+(0[xX][0-9a-fA-F]{1,16}|\d{1,19})\Z")
_TABLES = (b".symtab", b".dynsym")
_STT_FUNC, _STT_GNU_IFUNC = 2, 10


def probe_event(text: str) -> ChosenEvent:
    """Return the event of a place in a file.

    Raises:
        UsageError: there is no such file or function, or this kernel has no probes.
    """
    kind = pmus.pmu_type(_UNIT)
    if kind is None:
        raise UsageError(f"{text}: this kernel has no probes in user space (CONFIG_UPROBES)")
    place, returns, rest = text.partition(_RETURN)
    path, colon, function = place.rpartition(":")
    match = _OFFSET.match(place)
    if rest or not ((colon and path and function) or match):
        raise UsageError(f"{text}: give FILE:FUNCTION or FILE+OFFSET")
    path = os.path.realpath(match[1] if match else path)
    offset = int(match[2], 0) if match else function_offset(path, function)
    config = pmus.pmu_parameters(_UNIT)["retprobe"].placed(1) if returns else 0
    os.close(open_program(path))
    attr = EventAttr(type=kind, config=config, config2=offset)
    return ChosenEvent(text, attr, path=os.fsencode(path))


def function_offset(path: str, function: str) -> int:
    """Return the offset of a function in a file, by the file's symbol tables, or Go's table.

    Raises:
        UsageError: it is no ELF file, has no such function, or several.
    """
    from prospect.elf.go_table import read_go_table  # noqa: PLC0415 - numpy, only for a name
    from prospect.elf.image import ElfImage  # noqa: PLC0415 - the same
    from prospect.elf.symbols import read_symbols  # noqa: PLC0415 - the same

    with Descriptor(open_program(path)) as descriptor:
        try:
            image = ElfImage.parse(hold_contents(descriptor))
        except (ElfError, OSError) as error:
            raise UsageError(f"{path}: {error}") from None
    offsets: set[int] = set()
    for name in _TABLES:
        symbols = read_symbols(image, name)
        if symbols:
            offsets |= _offsets_of(image, symbols, os.fsencode(function))
    go_table = None if offsets else read_go_table(image)
    if go_table is not None:
        rows = [row for row, _ in go_table.rows_named([os.fsencode(function)])]
        offsets |= set(image.offset_of_svma(go_table.start[rows]).tolist())
    if not offsets:
        raise UsageError(
            f"{path} has no function '{function}': give FILE+OFFSET, or its other name"
        )
    if len(offsets) > 1:
        raise UsageError(f"{path} has {len(offsets)} functions '{function}': give FILE+OFFSET")
    return offsets.pop()


def _offsets_of(image: ElfImage, symbols: ElfSymbols, function: bytes) -> set[int]:
    import numpy as np  # noqa: PLC0415 - the same

    from prospect.elf.image import NO_ADDRESS  # noqa: PLC0415 - the same

    strings, wanted = bytes(symbols.strings), function + b"\0"
    starts = [match.start() for match in re.finditer(re.escape(wanted), strings)]
    rows = np.flatnonzero(
        np.isin(symbols.name, np.asarray(starts, np.uint32))
        & np.isin(symbols.kind, (_STT_FUNC, _STT_GNU_IFUNC))
        & (symbols.section > 0)
    )
    found = image.offset_of_svma(symbols.value[rows])
    return set(found[found != np.uint64(NO_ADDRESS)].tolist())


def open_program(path: str, asked_by: str = "") -> int:
    """Open a regular file for reading, but no device or FIFO.

    Args:
        asked_by: the beginning of error messages.

    Raises:
        UsageError: there is no such file, or it cannot be read.
    """
    try:
        with Descriptor(os.open(path, os.O_PATH | os.O_CLOEXEC)) as place:
            if not stat.S_ISREG(os.fstat(place).st_mode):
                raise UsageError(
                    f"{asked_by}{path} is not a regular file: a probe needs a program or a library"
                )
            return os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(f"{asked_by}{path}: {error.strerror}") from None
