"""Samples with call chains or copies of stacks → who called, and the stacks of a profile.

Comes in: samples, and what stands in their address spaces. Goes out: in two steps, as callers are
named together with hits: `SampleCallers`, whose addresses are to be placed and named, and then the
`StackTable`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.announcing import silent
from prospect.assembly.stacks.chain_frames import cut_chains, user_begin, with_cut_ends
from prospect.assembly.stacks.chains import distinct_callers
from prospect.assembly.stacks.stacks import build_stacks, caller_addresses, without_strays
from prospect.assembly.stacks.user_contexts import find_user_contexts
from prospect.assembly.stacks.user_stacks import no_user_stacks
from prospect.records import Record
from prospect.symbols.cache import SymbolCache

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from prospect.abi.recording import RecordingInfo
    from prospect.announcing import Announce
    from prospect.assembly.placing.places import Addresses, Placement
    from prospect.assembly.python.python_stacks import PythonSamples
    from prospect.assembly.stacks.chains import Callers
    from prospect.events.columns import Samples
    from prospect.profile.model import StackTable
    from prospect.profile.stack_copies import StackCopies
    from prospect.spaces.attribution import Attribution
    from prospect.spaces.world import World
    from prospect.symbols.symbolizer import Symbolizer


class SampleCallers(Record):
    """Callers of all samples, their distinct addresses, and which address each of them has.

    `row` is as from `caller_addresses`. `copies` says what became of copies of stacks, where there
    are any.
    """

    callers: Callers
    addresses: Addresses
    row: NDArray[np.int64]
    copies: StackCopies | None


def find_callers(  # noqa: PLR0913 - one stage's input, and how it is to work
    samples: Samples,
    world: World,
    info: RecordingInfo,
    symbolizer: Symbolizer,
    *,
    use_cache: bool,
    announce: Announce = silent,
    python: PythonSamples | None = None,
) -> SampleCallers | None:
    """Read the call chains and unwind copies of stacks, None where no sample has either.

    Args:
        samples: of a recording.
        world: its address spaces.
        info: what it says of itself.
        symbolizer: finds the images that the call-frame information is in.
        use_cache: whether call-frame rows are kept on disk between runs.
        announce: called with how far it is.
        python: the Python frames of samples, None without.
    """
    has_states = samples.user is not None or samples.calls is not None
    if samples.chain is None and not has_states and python is None:
        return None
    contexts = find_user_contexts(samples, world.timeline)
    stacks, copies, is_cut = no_user_stacks(len(samples)), None, None
    if has_states:
        from prospect.assembly.stacks.recorded_code import RecordedCode  # noqa: PLC0415 - seldom recorded
        from prospect.assembly.stacks.unwinding import with_whole_stacks  # noqa: PLC0415 - seldom recorded

        cache = SymbolCache.of_user() if use_cache else None
        code = RecordedCode(contexts, world, info, symbolizer, cache)
        samples, stacks, copies, is_cut = with_whole_stacks(samples, contexts, code, info, announce)
        del code
        # Naming finds what it needs again, of all files the smallest first.
        symbolizer.images.let_go()
    if is_cut is None:
        is_cut = cut_chains(samples, info.events)
    if python is not None:
        from prospect.assembly.stacks.python_callers import with_python_callers  # noqa: PLC0415 - seldom recorded

        # A stack with all of its Python frames is whole, even if the native stack was cut.
        begin, end = (column.take(python.stacks.sample) for column in user_begin(samples))
        is_cut[python.stacks.sample] &= begin == end
        is_cut[python.stacks.sample] |= python.stacks.is_cut
        samples, stacks = with_python_callers(samples, stacks, python)
    announce("putting call stacks together")
    samples = with_cut_ends(samples, is_cut)
    callers = distinct_callers(samples, contexts.of_sample, stacks)
    return SampleCallers(callers, *caller_addresses(callers, contexts), copies)


def named_stacks(
    found: SampleCallers,
    placement: Placement,
    location_index: NDArray[np.int32],
    hits: Attribution,
) -> tuple[StackTable, NDArray[np.int32]]:
    """Build the stacks, once the addresses of hits, and behind them those of callers, have names.

    Args:
        found: the callers.
        placement: of hits, callers, and what else stands behind them.
        location_index: i32[a] row of locations of each of these addresses.
        hits: of the samples.

    Returns:
        The table, and i32[n] each sample's own frame in it.
    """
    is_nowhere = placement.is_nowhere[len(hits) :]
    callers, row = without_strays(found.callers, found.row, is_nowhere)
    caller_location = location_index[len(hits) :].take(row)
    return build_stacks(callers, caller_location, hits, location_index[: len(hits)])
