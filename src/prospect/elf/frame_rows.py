"""Call-frame information of an image → one sorted table of addresses and the rules from them on.

All functions are computed together, which costs less than to find out which ones matter. .eh_frame
takes precedence over .debug_frame, and that over .sframe. Go's own table (`go_rows`) precedes them.
Landmarks have known callers without any of these: the entry point, and the trampoline to which
signal handlers return.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.buffers import segments
from prospect.elf import elf_layout
from prospect.elf import frame_rules as rules
from prospect.elf import frame_steps as step
from prospect.elf.elf_limits import (
    LONGEST_INITIAL_BYTES,
    MOST_ASSEMBLY,
    MOST_GO_ROWS,
    MOST_TRAMPOLINES,
)
from prospect.elf.frame_entries import DW_EH_PE_ABSPTR, EhData, read_debug_frames, read_frames
from prospect.elf.frame_states import Functions, RuleRows, rows_of_steps, signal_rule
from prospect.elf.frame_steps import FrameSteps, decode_operations, translate
from prospect.elf.go_table import ASSEMBLY, GO_1_16, WRITES_SP, read_go_table
from prospect.elf.image import NO_ADDRESS
from prospect.elf.sframe import read_sframe, sframe_rows
from prospect.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.columns.array_types import I64, U64, Bools
    from prospect.elf.frame_entries import FrameTable
    from prospect.elf.frame_rules import MachineRegisters
    from prospect.elf.go_table import GoTable
    from prospect.elf.image import ElfImage

# Programs are translated in pieces of about this many bytes: the results stay in the cache.
_PIECE_SHIFT = 18
# Higher addresses are the kernel's, or could overflow.
_LAST_ADDRESS = 1 << 62
# Includes the call in glibc's `_start`, on both machines.
_ENTRY_BYTES = 48
# The end of a trampoline's instructions, their possible beginnings, and the distance from sp to the
# interrupted frame's sp. A search for one constant is ten times as fast as one for two.
_RT_SIGRETURN = {
    # mov $15, %rax or %eax; syscall: the ucontext begins at the stack pointer
    elf_layout.EM_X86_64: (re.compile(rb"\x0f\0\0\0\x0f\x05"), (b"\x48\xc7\xc0", b"\xb8"), 160),
    # mov x8, #139; svc #0: siginfo and the ucontext up to its registers are above sp
    elf_layout.EM_AARCH64: (re.compile(rb"\x68\x11\x80\xd2\x01\0\0\xd4"), (b"",), 560),
}


class FrameRows(Record, eq=False):
    """The rules of an image.

    Attributes:
        start: SVMA from which on a rule holds, strictly ascending.
        rule: as `frame_rules` packs it; `NO_ROW` between functions.
    """

    start: U64
    rule: I64

    def __len__(self) -> int:
        return len(self.start)

    def look_up(self, svma: U64) -> I64:
        """Return the rule at each address, i64[n]; `NO_ROW` before the first."""
        if not len(self):
            return np.full(len(svma), rules.NO_ROW)
        row = np.searchsorted(self.start, svma, side="right") - 1
        rule = self.rule.take(np.maximum(row, 0))
        rule[row < 0] = rules.NO_ROW
        return rule


def frame_row_costs(image: ElfImage) -> tuple[int, int]:
    """Estimate the memory of `read_frame_rows`: bytes while it works, and from then on.

    libLLVM 15 takes 45 and 3 bytes for each byte of .eh_frame. Other tables take less.
    """
    size = 0
    go_names = b".gopclntab", b".data.rel.ro.gopclntab"
    for name in (b".eh_frame", b".debug_frame", b".sframe", *go_names):
        row = image.find_section(name)
        size += int(image.sections[row]["size"]) if row >= 0 else 0
    return 50 * size, 4 * size


def read_frame_rows(image: ElfImage, debug_image: ElfImage | None = None) -> FrameRows | None:
    """Compute the rules of all functions of an image.

    Args:
        debug_image: the image's debug file, which may have .debug_frame.

    Returns:
        The rules; None if there are none, or the machine is not x86-64 or arm64.
    """
    machine = rules.MACHINES.get(image.machine)
    if machine is None or not image.is_64:
        return None
    landmarks = found = _landmark_rows(image)
    sframe = read_sframe(image)
    if sframe is not None:
        found = _laid_over(found, rows_in_order(*sframe_rows(sframe, machine)))
    for source in (image,) if debug_image is None else (image, debug_image):
        frames = read_debug_frames(source)
        if frames is not None:
            found = _laid_over(found, _table_rows(frames, machine))
    frames = read_frames(image)
    if frames is not None:
        found = _laid_over(found, _table_rows(frames, machine))
    go_table = read_go_table(image)
    if go_table is not None:
        found = _laid_over(_laid_over(found, rows_in_order(*go_rows(go_table))), landmarks)
    return found if len(found) else None


def _table_rows(frames: FrameTable, machine: MachineRegisters) -> FrameRows:
    """Compute the rules of the functions of one section."""
    limit = np.uint64(_LAST_ADDRESS)
    rows = np.flatnonzero((frames.start < limit) & (frames.end < limit))
    order = rows.take(np.argsort(frames.offset.take(rows), kind="stable"))
    # Overlapping entries would make the work quadratic; no linker writes such.
    last_end = np.maximum.accumulate(np.append(0, frames.limit.take(order)))[:-1]
    order = order[frames.offset.take(order) >= last_end]
    # If functions overlap, the later one holds.
    begin = np.sort(frames.start.take(order))
    following = np.append(begin, limit).take(
        np.searchsorted(begin, frames.start.take(order), side="right")
    )
    end = np.minimum(frames.end.take(order), following)
    pieces = list(_pieces(frames, order, end, machine))
    start = np.concatenate([end, *(piece.start for piece in pieces)])
    rule = np.concatenate([np.full(len(end), rules.NO_ROW), *(piece.rule for piece in pieces)])
    # If a function begins at the end of another one, its rule holds.
    return rows_in_order(start, rule)


def rows_in_order(start: U64, rule: I64) -> FrameRows:
    """Sort rows; of equal addresses the last one holds."""
    sequence = np.argsort(start, kind="stable")
    return _folded(start.take(sequence), rule.take(sequence))


def _folded(start: U64, rule: I64) -> FrameRows:
    """Keep the last of equal addresses, and the first of consecutive equal rules."""
    last = np.flatnonzero(np.append(start[1:] != start[:-1], True)[: len(start)])
    start, rule = start.take(last), rule.take(last)
    new = np.flatnonzero(np.append(True, rule[1:] != rule[:-1])[: len(rule)])
    return FrameRows(start.take(new), rule.take(new))


def _laid_over(lower: FrameRows, upper: FrameRows) -> FrameRows:
    """Return the upper rows, and the lower ones between them."""
    if not len(lower) or not len(upper):
        return upper if len(upper) else lower
    start = np.sort(np.concatenate((lower.start, upper.start)), kind="stable")
    rule = upper.look_up(start)
    silent = (rule == rules.NO_ROW) | (rule == rules.NO_FORM)
    below = lower.look_up(start)
    return _folded(start, np.where(silent & (below != rules.NO_ROW), below, rule))


def _landmark_rows(image: ElfImage) -> FrameRows:
    """Return the rules of places that are known without call-frame information."""
    found = FrameRows(np.zeros(0, np.uint64), np.zeros(0, np.int64))
    # The entry point has no caller; dynamic linkers and musl do not describe it.
    entry = [(image.entry, image.entry + _ENTRY_BYTES, rules.END)] if image.entry else []
    for start, end, rule in entry + _trampolines(image):
        if 0 <= start < end < _LAST_ADDRESS:
            bounds = np.array([start, end], np.uint64)
            found = _laid_over(found, FrameRows(bounds, np.array([rule, rules.NO_ROW])))
    return found


def _pieces(
    frames: FrameTable, order: I64, end: U64, machine: MachineRegisters
) -> Iterator[RuleRows]:
    """Yield the rows of some functions at a time."""
    initial = _initial_steps(frames, machine)
    piece = frames.offset.take(order) >> _PIECE_SHIFT
    bounds = np.flatnonzero(np.diff(piece, prepend=-1, append=-1))
    for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        yield _piece(frames, order[low:high], end[low:high], initial, machine)


def _piece(
    frames: FrameTable, rows: I64, end: U64, initial: FrameSteps, machine: MachineRegisters
) -> RuleRows:
    cie = frames.cie.take(rows)
    begin = frames.rest.take(rows)
    has_augmentation = _of_cies(frames, "augmentation").astype(bool).take(cie)
    size, behind = frames.data.leb128(begin, signed=False)
    skipped = np.where((size >= 0) & (size < len(frames.data)), behind + size, len(frames.data))
    limit = frames.limit.take(rows)
    begin = np.minimum(np.where(has_augmentation, skipped, begin), limit)
    encoding = _of_cies(frames, "fde_encoding").astype(np.int64).take(cie)
    factors = (
        _of_cies(frames, "code_alignment").take(cie),
        _of_cies(frames, "data_alignment").take(cie),
    )
    operations = decode_operations(frames.data, begin, limit, encoding)
    own = translate(frames.data, operations, factors, machine)
    steps, last_initial = _joined(initial, cie, own)
    is_signal = _of_cies(frames, "is_signal_frame").astype(bool).take(cie)
    start = frames.start.take(rows).view(np.int64)
    functions = Functions(start, end.view(np.int64), is_signal, last_initial)
    return rows_of_steps(steps, functions, machine)


def _of_cies(frames: FrameTable, name: str) -> I64:
    """Return a field of each CIE, i64[c]; 0 for absurd numbers."""
    values = [getattr(cie, name) for cie in frames.cies]
    numbers = [len(v) if isinstance(v, bytes) else int(v) for v in values]
    return np.array([n if abs(n) < 1 << 20 else 0 for n in numbers], np.int64)


def _initial_steps(frames: FrameTable, machine: MachineRegisters) -> FrameSteps:
    """Translate the CIEs' own instructions; `program` is the row of the CIE."""
    content = bytearray()
    begin, end = [], []
    for cie in frames.cies:
        begin.append(len(content))
        content += frames.data.content[cie.program : cie.end][:LONGEST_INITIAL_BYTES]
        end.append(len(content))
    data = EhData(memoryview(bytes(content)), 0, frames.data.pointer_bytes)
    encoding = np.full(len(begin), DW_EH_PE_ABSPTR)
    operations = decode_operations(data, np.array(begin), np.array(end), encoding)
    factors = _of_cies(frames, "code_alignment"), _of_cies(frames, "data_alignment")
    steps = translate(data, operations, factors, machine)
    steps.action[np.isin(steps.action, (step.STEP_ADVANCE, step.STEP_SET_LOCATION))] = (
        step.STEP_UNKNOWN
    )
    return steps


def _joined(initial: FrameSteps, cie: I64, own: FrameSteps) -> tuple[FrameSteps, I64]:
    """Put a STEP_BEGIN and the CIE's steps before each program's steps, and a STEP_END after them.

    Args:
        initial: of all CIEs.
        cie: i64[n] of each program.
        own: the programs' own steps.

    Returns:
        All steps, and i64[n] the row of the last step that is not a program's own.
    """
    count = len(cie)
    first_of_cie = np.searchsorted(initial.program, np.arange(cie.max(initial=-1) + 2))
    initial_count = np.diff(first_of_cie).take(cie)
    own_count = np.bincount(own.program, minlength=count)
    length = initial_count + own_count + 2
    stop = np.cumsum(length)
    start = stop - length
    # Rows of both tables, concatenated; -1 marks a beginning or an end.
    source = np.full(int(length.sum()), -1)
    spread = np.arange(int(initial_count.sum()))
    shift = np.cumsum(initial_count) - initial_count
    source[spread + (start + 1 - shift).repeat(initial_count)] = spread + (
        first_of_cie.take(cie) - shift
    ).repeat(initial_count)
    shift = np.cumsum(own_count) - own_count
    at_own = np.arange(len(own)) + (start + 1 + initial_count - shift).repeat(own_count)
    source[at_own] = np.arange(len(own)) + len(initial)
    is_mark = source < 0
    source[is_mark] = 0

    def both(name: str) -> I64:
        column = np.concatenate((getattr(initial, name), getattr(own, name)))
        return column.take(source) if len(column) else np.zeros(len(source), column.dtype)

    action = both("action").astype(np.uint8)
    action[start], action[stop - 1] = step.STEP_BEGIN, step.STEP_END
    value = both("value")
    value[is_mark] = 0
    steps = FrameSteps(
        program=np.arange(count).repeat(length),
        action=action,
        register=both("register"),
        how=both("how").astype(np.uint8),
        value=value,
        extra=both("extra"),
    )
    return steps, start + initial_count


def _trampolines(image: ElfImage) -> list[tuple[int, int, int]]:
    """Find trampolines of signals by their instructions: some libraries do not describe them.

    Source: setup_rt_frame() in ``arch/x86/kernel/signal_64.c`` and struct rt_sigframe in
    ``arch/arm64/kernel/signal.c`` (Linux 6.18).

    Returns:
        Start and end of each, SVMAs, and its rule.
    """
    pattern, heads, saved_sp = _RT_SIGRETURN[image.machine]
    rule = int(signal_rule(np.array([saved_sp]))[0])
    found: list[tuple[int, int, int]] = []
    # Overlapping segments do not have the same bytes searched again and again.
    left = len(image.data)
    for segment in image.segments:
        if segment["type"] != elf_layout.PT_LOAD or not segment["flags"] & elf_layout.PF_X:
            continue
        offset, address = int(segment["offset"]), int(segment["vaddr"])
        code = image.data[offset : offset + min(int(segment["filesz"]), left)]
        left -= len(code)
        for match in pattern.finditer(code):
            first = match.start()
            sizes = [len(head) for head in heads if code[max(first - len(head), 0) : first] == head]
            if sizes and len(found) < MOST_TRAMPOLINES:
                # A look-up is one byte before the return address. A task in the system call is
                # after the last instruction.
                begin = address + first - sizes[0] - 1
                found.append((begin, address + match.end() + 1, rule))
    return found


# Frames of Go functions, by the sizes in Go's own table.
#
# On x86-64, a size is the distance from the stack pointer to the return address. On arm64, it is
# the distance to the caller's stack pointer; the link register is saved at the stack pointer and
# the frame register below it. Functions that switch to another stack (`systemstack`, `mcall`) have
# no rule: only the runtime knows the caller's stack.
#
# Source: ``runtime/traceback.go`` (Go 1.27), unwinder.next(); ``cmd/internal/obj/x86/obj6.go``
# and ``cmd/internal/obj/arm64/obj7.go``, preprocess(), for what prologues save.

_WORD = 8
_PIECE = 4096
_PROLOGUE = 64  # bytes in which a function saves the frame register
_SAVED_BELOW_RETURN = -2 & (1 << rules.FP_BITS) - 1
# push %rbp and mov %rsp, %rbp; or mov %rbp to a distance of one byte, or of four, from %rsp
_SAVES_FP = re.compile(rb"^\x55\x48\x89\xe5|\x48\x89\x6c\x24(.)|\x48\x89\xac\x24(....)", re.DOTALL)
# Outermost functions. `sigtramp` is not one, although Go marks it: the kernel's frame is above it.
_OUTERMOST = (b"runtime.goexit", b"runtime.mstart", b"runtime.rt0_go")
# These have a frame on the new stack that leads to the former frames there.
_LEADS_ON = (b"runtime.cgocallback", b"runtime.cgocallback_gofunc")
# For Go 1.16, which has no flag for these.
_SWITCHES = (
    *(b"runtime.systemstack", b"runtime.mcall", b"runtime.asmcgocall", b"runtime.morestack"),
    *(b"runtime.gogo", b"runtime.nanotime1", b"runtime.walltime1", b"runtime.sigfwd"),
)


def go_rows(table: GoTable) -> tuple[U64, I64]:
    """Compute the rules of all functions of an image of x86-64 or arm64.

    Returns:
        u64[r] SVMAs from which on a rule holds, unordered, of which the last of equal ones counts;
        i64[r] the rules.
    """
    starts = [table.end]
    found = [np.full(len(table), rules.NO_ROW)]
    is_saved = _saves_frame_register(table)
    left = MOST_GO_ROWS
    for begin in range(0, len(table), _PIECE):
        function = np.arange(begin, min(begin + _PIECE, len(table)))
        lists = table.stack_depths(function)
        depths = table.values.unpacked(lists)
        which = depths.rows_of(lists)
        first = np.searchsorted(depths.row, np.arange(len(depths.begin) + 1))
        count = np.append(np.diff(first), 0).take(which)
        # Any number of functions may share one list.
        count = np.minimum(count, (left - np.cumsum(count) + count).clip(0))
        left -= int(count.sum())
        at, function = segments(first.take(which), count), function.repeat(count)
        start = table.start.take(function) + depths.start.take(at).astype(np.uint64)
        kept = np.flatnonzero(start < table.end.take(function))
        starts.append(start.take(kept))
        depth, function = depths.value.take(at.take(kept)), function.take(kept)
        found.append(_rules(table.image.machine, depth, is_saved.take(function)))
    return _with_rules(np.concatenate(starts), np.concatenate(found), table, _special(table))


def _rules(machine: int, depth: I64, is_saved: Bools) -> I64:
    """Return the rules of frames of some sizes, i64[r]."""
    if machine == elf_layout.EM_X86_64:
        cfa, saved = depth + _WORD, is_saved & (depth > 0)
        rule = np.where(saved, rules.RULE_AT_CFA << rules.FP_BITS | _SAVED_BELOW_RETURN, 0)
        rule = rule << rules.FP_SHIFT
        is_form = rules.fits(cfa, rules.CFA_BITS)
    else:
        cfa, saved = depth, depth > 0
        link = rules.pack_slot(-depth, rules.SECOND_BITS)
        frame = rules.pack_slot(-depth - _WORD, rules.FP_BITS)
        rule = (rules.RULE_AT_CFA << rules.SECOND_BITS | link) | (
            rules.RULE_AT_CFA << rules.FP_BITS | frame
        ) << rules.FP_SHIFT
        rule = np.where(saved, rule, 0)
        is_form = rules.fits(-depth - _WORD, rules.FP_BITS)
    rule = rule | rules.pack_slot(cfa, rules.CFA_BITS) << rules.CFA_SHIFT
    return np.where(is_form & (depth >= 0), rule, rules.NO_FORM)


def _saves_frame_register(table: GoTable) -> Bools:
    """Return which functions save the frame register below the return address, bool[f].

    Compilers always do so in frames that are not empty. Assembly without a frame may push other
    registers there.
    """
    is_saved = np.ones(len(table), np.bool_)
    if table.image.machine != elf_layout.EM_X86_64:
        return is_saved
    rows = np.flatnonzero(table.flags & ASSEMBLY)
    is_saved[rows] = False
    rows = rows[:MOST_ASSEMBLY]
    offset = table.image.offset_of_svma(table.start.take(rows))
    lists = table.stack_depths(rows)
    depths = table.values.unpacked(lists)
    deepest = np.zeros(len(depths.begin) + 1, np.int64)
    np.maximum.at(deepest, depths.row, depths.value)
    deepest = deepest.take(depths.rows_of(lists))
    for row, at, size in zip(rows.tolist(), offset.tolist(), deepest.tolist(), strict=True):
        if at == NO_ADDRESS:
            continue
        found = _SAVES_FP.search(bytes(table.image.data[at : at + _PROLOGUE]))
        if found:
            distance = int.from_bytes(found[1] or found[2] or b"", "little")
            is_saved[row] = not found.lastindex or distance == size - _WORD
    return is_saved


def _special(table: GoTable) -> dict[int, int]:
    """Return the rules, by row, of functions with one rule for all of their code."""
    named = {name: row for row, name in table.rows_named(_OUTERMOST + _LEADS_ON + _SWITCHES)}
    switches = set(np.flatnonzero(table.flags & WRITES_SP).tolist())
    if table.version == GO_1_16:
        switches |= {named[name] for name in _SWITCHES if name in named}
    switches -= {named[name] for name in _LEADS_ON if name in named}
    found = dict.fromkeys(sorted(switches), rules.SWITCH)
    return found | dict.fromkeys((named[name] for name in _OUTERMOST if name in named), rules.END)


def _with_rules(start: U64, rule: I64, table: GoTable, special: dict[int, int]) -> tuple[U64, I64]:
    """Give some functions one rule for all of their code."""
    is_special = np.zeros(len(table) + 1, np.bool_)
    is_special[list(special)] = True
    kept = np.flatnonzero(~is_special.take(table.row_of(start)))
    own = np.array(list(special), np.int64)
    return (
        np.concatenate((start.take(kept), table.start.take(own))),
        np.concatenate((rule.take(kept), np.array(list(special.values()), np.int64))),
    )
