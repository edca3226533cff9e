"""Samples in a JVM's interpreter → samples in the bytecode that it interprets.

All interpreted methods spend their time in the same code. If a copy of the stack tells which method
that was, the place in its bytecode becomes the sample's address.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import constants as abi
from prospect.assembly.stacks.recorded_code import RecordedCode
from prospect.assembly.stacks.unwinding import MACHINES, unwind_input
from prospect.assembly.stacks.user_stacks import find_user_contexts
from prospect.records import replace
from prospect.unwind.unwinder import unwind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prospect.abi.recorded_facts import RecordingInfo
    from prospect.events.record_columns import Samples
    from prospect.spaces.process_history import ProcessHistory
    from prospect.symbols.symbolizer import Symbolizer

_PID = np.uint64(0xFFFF_FFFF)


def in_bytecode(
    samples: Samples,
    history: ProcessHistory,
    info: RecordingInfo,
    symbolizer: Symbolizer,
    pids: Iterable[int],
) -> Samples:
    """Return samples whose addresses are in bytecode, where that is known.

    Args:
        samples: of a recording.
        history: its address spaces.
        info: what it says of itself.
        symbolizer: knows the code of JVMs.
        pids: the processes of JVMs that were read.
    """
    states, machine = samples.user, MACHINES.get(info.arch)
    if states is None or machine is None or machine.pc not in states.register_numbers:
        return samples
    of_jvm = np.isin(samples.task.take(states.sample) & _PID, np.array([*pids], np.uint64))
    is_user = samples.mode.take(states.sample) == abi.PERF_RECORD_MISC_USER
    rows = np.flatnonzero(of_jvm & is_user & (states.stack_bytes > 0))
    if not len(rows):
        return samples
    contexts = find_user_contexts(samples, history.timeline)
    code = RecordedCode(contexts, history, info, symbolizer)
    given = unwind_input(states, rows, contexts, machine)
    unwound = unwind(given, code, most_frames=1)
    symbolizer.images.let_go()
    known = np.flatnonzero(unwound.frames() > 0)
    address = unwound.chains(known).address
    ip = samples.ip.copy()
    is_moved = address != given.pc.take(known)
    ip[states.sample.take(rows.take(known[is_moved]))] = address[is_moved]
    return replace(samples, ip=ip)
