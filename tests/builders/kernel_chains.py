"""A made-up kernel whose functions have given names, and samples with chains through it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from builders.sideband import samples_of
from prospect.profile.builder import NamedAddresses
from prospect.profile.model import KIND_KERNEL, KIND_MODULE
from prospect.records import replace
from prospect.symbols.resolution import Resolution

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prospect.events.record_columns import Samples

KERNEL = "[kernel.kallsyms]"
CONTEXT_KERNEL = 2**64 - 128
CONTEXT_USER = 2**64 - 512
TEXT = 0xFFFFFFFF81000000
SIZE = 0x100
KERNEL_MODE, USER_MODE = 1, 2


class MadeUpKernel:
    """Functions of `SIZE` bytes side by side; a name may stand as ``name@[module]``."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = list(dict.fromkeys(names))

    def start(self, name: str) -> int:
        """Where a function begins; an ip may be there."""
        return TEXT + SIZE * self.names.index(name)

    def end(self, name: str) -> int:
        """Where a function that ends with a call returns to: the next one's first byte."""
        return self.start(name) + SIZE

    def name_at(self, address: int) -> str:
        """The function that has an address; "" for none."""
        place = (address - TEXT) // SIZE
        return self.names[place] if 0 <= place < len(self.names) else ""

    def resolve(self, address: Any) -> Resolution:
        place = (address.view(np.int64) - np.uint64(TEXT).view(np.int64)) // SIZE
        function = np.where((place >= 0) & (place < len(self.names)), place, -1).astype(np.int32)
        plain = [name.partition("@")[0] for name in self.names]
        count = len(plain)
        named = NamedAddresses(
            address=address,
            function=function,
            reason=np.zeros(len(address), np.uint8),
            name=plain,
            linkage_name=plain,
            aliases=[()] * count,
            function_address=np.arange(count, dtype=np.uint64),
            function_size=np.full(count, SIZE, np.uint64),
            is_global=np.ones(count, np.bool_),
            source=np.zeros(count, np.uint8),
            object_path=[name.partition("@")[2] or KERNEL for name in self.names],
        )
        kinds = {path: KIND_MODULE for path in named.object_path if path != KERNEL}
        return Resolution(named, KERNEL, KIND_KERNEL, part_kinds=kinds)

    def chain(self, *functions: str) -> list[int]:
        """The words of a chain, innermost function first: all of them at their very ends."""
        first, *others = functions
        return [CONTEXT_KERNEL, self.end(first) - 1, *map(self.end, others)]


def chained(chains: Sequence[Sequence[int]], modes: Sequence[int] | None = None) -> Samples:
    """Samples with these chains, of kernel mode unless said otherwise."""
    modes = [KERNEL_MODE] * len(chains) if modes is None else modes
    words = [word for chain in chains for word in chain]
    rows = [
        (chain[1] if len(chain) > 1 else TEXT, 7 | 7 << 32, time, mode, 1, 0)
        for time, (chain, mode) in enumerate(zip(chains, modes, strict=True))
    ]
    return replace(
        samples_of(rows),
        chain=np.array(words, np.uint64),
        chain_start=np.cumsum([0, *map(len, chains)]).astype(np.int64),
    )
