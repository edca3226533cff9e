"""Functions and frames of an image, by its .sframe section.

For each address, SFrame has the places of the CFA, the return address and the frame register, like
a row of call-frame information, but without a program. The assembler writes it (``gas --gsframe``),
and the linker joins it into one section, with or without .eh_frame.

An FDE has the addresses of a function, an FRE is one row of it. Rows have different lengths, and
each begins where the last one ends. So all are found first, and then decoded at once.

Source: "The SFrame Format", version 3 (binutils 2.46), and its versions 1 and 2 (binutils 2.40,
2.41).
"""

from __future__ import annotations

import struct
from array import array
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.buffers import segments
from prospect.elf import elf_layout
from prospect.elf import frame_rules as rules
from prospect.elf import frame_steps as step
from prospect.elf.elf_limits import (
    MOST_REPEATED_ROWS,
    MOST_SFRAME_FUNCTIONS,
    MOST_SFRAME_ROWS,
    MOST_WORDS,
)
from prospect.elf.frame_entries import described_data
from prospect.elf.frame_states import SavedRegister
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from prospect.columns.array_types import I64, U64, Bools
    from prospect.elf.frame_entries import EhData
    from prospect.elf.frame_rules import MachineRegisters
    from prospect.elf.image import ElfImage

# Magic, version, flags, ABI, distances of the saved frame register and return address from the CFA,
# bytes of an auxiliary header, numbers of FDEs and FREs, bytes of FREs, offsets of FDEs and FREs.
_HEADER = struct.Struct("<HBBBbbBIIIII")
_MAGIC = 0xDEE2
_IS_PC_RELATIVE = 4
_ABIS = {2: elf_layout.EM_AARCH64, 3: elf_layout.EM_X86_64}
_V1, _V2, _V3 = 1, 2, 3
_FDE_BYTES = {_V1: 17, _V2: 20, _V3: 16}
_ATTRIBUTE_BYTES = 5  # of version 3: before the rows of each function
_REPEATS, _IS_SIGNAL = 0x10, 0x80
# The size of entries of a procedure linkage table, for version 1, which has no field for it.
_REPEATED_BYTES = 16
_SHORTEST_ROW_BYTES = 2
_DEFAULT, _FLEXIBLE = 0, 1
_WORDS = ("<i1", "<i2", "<i4")
# Bytes of a row's words, by its info byte: their number in bits 1 to 4, the size of one in 5 and 6.
_NO_SIZE = 1 << 40
_BYTES_OF_WORDS = [
    (info >> 1 & 15) << (info >> 5 & 3) if info >> 5 & 3 < len(_WORDS) else _NO_SIZE
    for info in range(256)
]
# A control word: the register's DWARF number is above the lowest three bits.
_BY_REGISTER, _IS_READ, _REGISTER_SHIFT = 1, 2, 3
_LAST_ADDRESS = 1 << 62
# Rows are decoded in pieces of this many: the results stay in the cache.
_PIECE_ROWS = 1 << 15


class SframeTable(Record, eq=False):
    """The functions of a .sframe section in address order.

    Attributes:
        fixed_fp: bytes from the CFA to the saved frame register, 0 if rows have them.
        fixed_return: the same for the return address.
        start: SVMA of the first instruction.
        end: SVMA of the first byte after, not beyond the next `start`.
        first: offset of the first row in the section.
        count: number of rows.
        address_bytes: bytes of the addresses in rows.
        form: _DEFAULT or _FLEXIBLE; others are unknown.
        repeated: bytes of code after which the rows hold again, 0 if they do not.
        is_signal: whether the kernel pushed the frame.
    """

    data: EhData
    fixed_fp: int
    fixed_return: int
    start: U64
    end: U64
    first: I64
    count: I64
    address_bytes: I64
    form: I64
    repeated: I64
    is_signal: Bools

    def __len__(self) -> int:
        return len(self.start)


def read_sframe(image: ElfImage) -> SframeTable | None:
    """Read the functions of an image's .sframe; None if it has none that can be read."""
    data = described_data(image, b".sframe", elf_layout.PT_GNU_SFRAME)
    if data is None or len(data) < _HEADER.size or data.address >= _LAST_ADDRESS:
        return None
    fields = _HEADER.unpack_from(data.content)
    magic, version, flags, abi, fixed_fp, fixed_return, more, functions = fields[:8]
    if magic != _MAGIC or version not in _FDE_BYTES or _ABIS.get(abi) != image.machine:
        return None
    begin, size = _HEADER.size + more + fields[10], _FDE_BYTES[version]
    fde = np.arange(min(functions, MOST_SFRAME_FUNCTIONS, max(len(data) - begin, 0) // size))
    fde = begin + size * fde
    base = fde if flags & _IS_PC_RELATIVE else np.zeros(len(fde), np.int64)
    start_form, after = ("<i8", 8) if version == _V3 else ("<i4", 4)
    start = data.fixed(fde, start_form) + base + data.address
    length = data.fixed(fde + after, "<u4")
    first = _HEADER.size + more + fields[11] + data.fixed(fde + after + 4, "<u4")
    if version == _V3:
        count, info = data.fixed(first, "<u2"), data.fixed(first + 2, "<u1")
        form, repeated = data.fixed(first + 3, "<u1") & 31, data.fixed(first + 4, "<u1")
        first += _ATTRIBUTE_BYTES
    else:
        count, info = data.fixed(fde + 12, "<u4"), data.fixed(fde + 16, "<u1")
        form = np.full(len(fde), _DEFAULT)
        repeated = data.fixed(fde + 17, "<u1") if version == _V2 else form + _REPEATED_BYTES
    kept = np.flatnonzero((start >= 0) & (start < _LAST_ADDRESS) & (info & 15 < 3) & (length > 0))
    kept = kept[(first.take(kept) <= len(data)) & ((count.take(kept) > 0) | (version == _V3))]
    kept = kept.take(np.argsort(start.take(kept), kind="stable"))
    start, info = start.take(kept), info.take(kept)
    # If functions overlap, the later one holds.
    following = np.append(start, _LAST_ADDRESS).take(np.searchsorted(start, start, side="right"))
    end = np.minimum(start + length.take(kept), following)
    table = SframeTable(
        data=data,
        fixed_fp=fixed_fp,
        fixed_return=fixed_return,
        start=start.view(np.uint64),
        end=end.view(np.uint64),
        first=first.take(kept),
        count=count.take(kept),
        address_bytes=1 << (info & 15),
        form=form.take(kept),
        repeated=np.where(info & _REPEATS, repeated.take(kept), 0),
        is_signal=(info & _IS_SIGNAL != 0) & (version == _V3),
    )
    return table if len(table) else None


def sframe_rows(table: SframeTable, machine: MachineRegisters) -> tuple[U64, I64]:
    """Compute the rules of all functions.

    Returns:
        u64[r] SVMAs from which on a rule holds, unordered, of which the last of equal ones counts;
        i64[r] the rules.
    """
    at, count = _find_rows(table)
    outermost = np.flatnonzero((table.count == 0) & (table.form == _DEFAULT))
    starts = [table.end, table.start.take(outermost)]
    found = [np.full(len(table), rules.NO_ROW), np.full(len(outermost), rules.END)]
    function = np.arange(len(table)).repeat(count)
    copies = _copies(table, count).take(function)
    for low in range(0, len(at), _PIECE_ROWS):
        piece = slice(low, low + _PIECE_ROWS)
        rows = _read_rows(table, at[piece], function[piece], machine)
        rule = _pack(rows.places, machine)
        rule[rows.words == 0] = rules.END
        rule[~rows.is_known] = rules.NO_FORM
        # Trampolines of signals are known by their instructions.
        rule[table.is_signal.take(function[piece])] = rules.NO_ROW
        start, at_row = _places(table, rows.address, function[piece], copies[piece])
        starts.append(start)
        found.append(rule.take(at_row))
    return np.concatenate(starts), np.concatenate(found)


def _find_rows(table: SframeTable) -> tuple[I64, I64]:
    """Find where rows begin.

    Returns:
        i64[r] offsets in the section, function by function, and i64[n] the number of each; 0 for a
        function whose rows are not all in the section.
    """
    content, size = table.data.content, len(table.data)
    found, counts = array("q"), array("q", bytes(8 * len(table)))
    # Any number of functions may refer to the same rows.
    left = min(MOST_SFRAME_ROWS, size // _SHORTEST_ROW_BYTES)
    columns = (table.first.tolist(), table.count.tolist(), table.address_bytes.tolist())
    for function, (first, count, address_bytes) in enumerate(zip(*columns, strict=True)):
        if count > left:
            continue
        begun, position = len(found), first
        for _ in range(count):
            info = position + address_bytes
            if info >= size:
                break
            found.append(position)
            position = info + 1 + _BYTES_OF_WORDS[content[info]]
        if len(found) - begun < count or position > size:
            del found[begun:]
        else:
            counts[function] = count
        left -= count
    return np.frombuffer(found, np.int64), np.frombuffer(counts, np.int64)


def _copies(table: SframeTable, count: I64) -> I64:
    """Return how often the rows of each function repeat over its code, i64[n]."""
    size = (table.end - table.start).view(np.int64)
    copies = np.where(table.repeated > 0, -(-size // np.maximum(table.repeated, 1)), 0)
    is_few = np.cumsum(copies * count) <= MOST_REPEATED_ROWS
    return np.where(table.repeated > 0, np.where(is_few, copies, 0), 1)


def _places(table: SframeTable, address: I64, function: I64, copies: I64) -> tuple[U64, I64]:
    """Return the SVMAs from which on rows hold, u64[p], and the row at each, i64[p]."""
    row = np.arange(len(copies)).repeat(copies)
    repeated = table.repeated.take(function).take(row)
    distance = address.take(row) + repeated * segments(np.zeros(len(copies), np.int64), copies)
    start = table.start.take(function).take(row) + distance.view(np.uint64)
    is_own = (repeated == 0) | (address.take(row) < repeated)
    kept = np.flatnonzero(is_own & (start < table.end.take(function).take(row)))
    return start.take(kept), row.take(kept)


class _Place(NamedTuple):
    """The place of a register or of the CFA: a control word, 0 if unknown, and a distance."""

    control: I64
    distance: I64

    def or_fixed(self, distance: int) -> _Place:
        """Replace unknown places by a distance from the CFA, unless that is 0."""
        is_fixed = (self.control == 0) & (distance != 0)
        return _Place(
            np.where(is_fixed, _IS_READ, self.control), np.where(is_fixed, distance, self.distance)
        )

    def register(self, machine: MachineRegisters) -> SavedRegister:
        """Return the place as that of a saved register."""
        how = np.full(len(self.control), step.SAVED_LOST, np.uint8)
        how[self.control == 0] = step.SAVED_SAME
        how[self.control & (_BY_REGISTER | _IS_READ) == _IS_READ] = step.SAVED_AT_CFA
        at_fp = _BY_REGISTER | _IS_READ | machine.fp << _REGISTER_SHIFT
        how[self.control == at_fp] = step.SAVED_AT_FP
        return SavedRegister(how, self.distance)


_Places = tuple[_Place, _Place, _Place]


class _Rows(NamedTuple):
    """Some rows; columns by row.

    Attributes:
        address: bytes from the start of the function or of the repetition.
        is_known: whether the form of the function is known.
        places: of the CFA, the return address and the frame register.
    """

    address: I64
    words: I64
    is_known: Bools
    places: _Places


def _read_rows(table: SframeTable, at: I64, function: I64, machine: MachineRegisters) -> _Rows:
    """Read rows at these offsets of the section, of these functions."""
    data, form = table.data, table.form.take(function)
    address_bytes = table.address_bytes.take(function)
    address = data.fixed(at, "<u1")
    for size, name in ((2, "<u2"), (4, "<u4")):
        rows = np.flatnonzero(address_bytes == size)
        address[rows] = data.fixed(at.take(rows), name)
    info = data.fixed(at + address_bytes, "<u1")
    words, shift = info >> 1 & 15, info >> 5 & 3
    word = np.zeros((MOST_WORDS, len(at)), np.int64)
    for power, name in enumerate(_WORDS):
        rows = np.flatnonzero(shift == power)
        begin = (at + address_bytes + 1).take(rows)
        for number in range(MOST_WORDS):
            word[number, rows] = data.fixed(begin + (number << power), name)
    word[np.arange(MOST_WORDS)[:, np.newaxis] >= words] = 0
    default = _default_places(word, info, machine)
    flexible = _flexible_places(word, (1 << (8 << shift)) - 1)
    cfa, returns, fp = (
        _Place(*(np.where(form == _FLEXIBLE, *columns) for columns in zip(*both, strict=True)))
        for both in zip(flexible, default, strict=True)
    )
    places = cfa, returns.or_fixed(table.fixed_return), fp.or_fixed(table.fixed_fp)
    return _Rows(address, words, form <= _FLEXIBLE, places)


def _default_places(word: I64, info: I64, machine: MachineRegisters) -> _Places:
    """Return the places of the CFA, on arm64 of the return address, and of the frame register.

    Nothing is saved at the CFA itself, so 0 means none.
    """
    base = np.where(info & 1, machine.sp, machine.fp)
    saved = word[1:3] if machine.return_slot == 0 else np.stack((np.zeros_like(base), word[1]))
    returns, fp = (_Place(np.where(distance != 0, _IS_READ, 0), distance) for distance in saved)
    return _Place(base << _REGISTER_SHIFT | _BY_REGISTER, word[0]), returns, fp


def _flexible_places(word: I64, mask: I64) -> _Places:
    """Return the places of words in pairs of an unsigned control word and a distance.

    A control word of 0 for the return address has no distance.
    """
    is_short = word[2] == 0
    fp = np.where(is_short, word[3], word[4]) & mask, np.where(is_short, word[4], word[5])
    return _Place(word[0] & mask, word[1]), _Place(word[2] & mask, word[3]), _Place(*fp)


def _pack(places: _Places, machine: MachineRegisters) -> I64:
    """Return the rules of rows, i64[r]."""
    cfa, returns, fp = places
    register, is_read = cfa.control >> _REGISTER_SHIFT, cfa.control & _IS_READ != 0
    kind = np.full(len(register), rules.KIND_REGISTER)
    kind[register == machine.sp] = rules.KIND_SP
    kind[register == machine.fp] = rules.KIND_FP
    kind[is_read] = rules.KIND_DEREF
    bits = np.where(is_read, rules.DEREF_BITS, rules.CFA_BITS)
    is_form = np.where(
        is_read,
        rules.fits(cfa.distance, rules.DEREF_BITS),
        rules.fits(cfa.distance, rules.CFA_BITS),
    )
    slot = cfa.distance >> 3 & (1 << bits) - 1
    is_form &= (cfa.control & _BY_REGISTER != 0) & (register < 32)
    saved = returns.register(machine)
    if machine.return_slot:
        # The value of rbx is unknown, so chains end at frames that need it.
        second = np.full(len(register), rules.RULE_LOST << rules.SECOND_BITS)
        is_form &= (saved.how == step.SAVED_AT_CFA) & (saved.value == 8 * machine.return_slot)
    else:
        second = saved.field()
        is_form &= second >> rules.SECOND_BITS != rules.RULE_LOST
    rule = kind << rules.KIND_SHIFT | register << rules.REGISTER_SHIFT | slot << rules.CFA_SHIFT
    rule |= fp.register(machine).field() << rules.FP_SHIFT | second
    return np.where(is_form, rule, rules.NO_FORM)
