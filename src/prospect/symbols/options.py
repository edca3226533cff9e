"""What naming must know of the recording, and what a person may choose about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.events.columns import KernelSymbols


@dataclass(frozen=True)
class SymbolOptions:
    """Facts of the recording (empty or 0 where it does not say) and choices.

    Attributes:
        hostname: of the recorded machine. Processes and files of this machine are asked only if
            it is this one; an empty name is taken for this one.
        recorded_until: end of the recording, seconds since the epoch. Files that changed later,
            and processes that started later, are others than the recorded ones.
        kernel_release: of the recorded kernel, as uname(2) has it.
        kernel_build_id: of the recorded kernel.
        kernel_text: where the recorded kernel stood: address of `kernel_text_symbol`, from the
            kernel's own PERF_RECORD_MMAP (its pgoff, and the end of its name).
        kernel_text_symbol: ``_text`` or ``_stext``.
        kernel_symbols: PERF_RECORD_KSYMBOL records, None where there are none.
        names: the strings that `kernel_symbols.name` refers to.
        system_map: a System.map to name the kernel with (-K).
        kernel_image: an uncompressed kernel image to name the kernel with (-L).
        use_cache: whether symbol tables are kept on disk between runs.
    """

    hostname: str = ""
    recorded_until: float = 0.0
    kernel_release: str = ""
    kernel_build_id: bytes = b""
    kernel_text: int = 0
    kernel_text_symbol: str = "_text"
    kernel_symbols: KernelSymbols | None = None
    names: Sequence[bytes] = ()
    system_map: str | None = None
    kernel_image: str | None = None
    use_cache: bool = True
