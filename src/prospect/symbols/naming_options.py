"""Facts of the recording that naming needs, and the choices of a person."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from prospect.files.budget import ReadBudget
from prospect.records import NamedTuple, Record, field
from prospect.symbols.symbols_limits import (
    DEBUG_SERVERS_S,
    LARGEST_DOWNLOAD_BYTES,
    PROMPT_S,
    USUAL_DOWNLOAD_BYTES,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from prospect.abi.recorded_facts import KeptImage
    from prospect.events.record_columns import KernelSymbols
    from prospect.symbols.jit.jit_code import JitCode
    from prospect.symbols.runtime_code import RuntimeCode


_URLS_VARIABLE = "DEBUGINFOD_URLS"
_WEB = ("http://", "https://")
_POLICY_TAG = "ima:"


class DebugServers(Record):
    """Debug-file servers, and what asking them may cost.

    Attributes:
        urls: prefixes of addresses, in the order in which they are asked.
        budget_s: how long all requests of a report together may take.
        prompt_s: how long a server may take to begin with an answer.
        whole_s: how long one file may take.
        most_bytes: how large one file may be.
        notes: sentences about words of the variable that were left out.
    """

    urls: tuple[str, ...]
    budget_s: float = DEBUG_SERVERS_S
    prompt_s: float = PROMPT_S
    whole_s: float = DEBUG_SERVERS_S
    most_bytes: int = USUAL_DOWNLOAD_BYTES
    notes: tuple[str, ...] = ()


def debug_servers(environment: Mapping[str, str], budget_s: float) -> DebugServers | None:
    """Read the variables of debuginfod-client-config(7); None if nobody is to be asked.

    Args:
        environment: variables by name.
        budget_s: how long all requests of a report may take; 0 for no requests.
    """
    words = [
        word
        for word in environment.get(_URLS_VARIABLE, "").split()
        if not word.startswith(_POLICY_TAG)
    ]
    if not words or budget_s <= 0:
        return None
    urls = tuple(dict.fromkeys(word for word in words if word.startswith(_WEB)))
    most_bytes = int(_number(environment, "DEBUGINFOD_MAXSIZE", USUAL_DOWNLOAD_BYTES))
    return DebugServers(
        urls=urls,
        budget_s=budget_s,
        prompt_s=min(_number(environment, "DEBUGINFOD_TIMEOUT", PROMPT_S), budget_s),
        whole_s=min(_number(environment, "DEBUGINFOD_MAXTIME", budget_s), budget_s),
        most_bytes=min(most_bytes, LARGEST_DOWNLOAD_BYTES),
        notes=tuple(
            f"{_URLS_VARIABLE}: {word} is not an http or https address and was left out."
            for word in words
            if word not in urls
        ),
    )


def _number(environment: Mapping[str, str], name: str, default: float) -> float:
    """Return a variable's number; the default if there is none above 0."""
    text = environment.get(name, "")
    return float(text) if text.isascii() and text.isdigit() and int(text) else default


def _no_starts(_pid: int) -> Sequence[int]:
    return ()


class MapCopy(NamedTuple):
    """A map file that a recording holds: when it was last written to, 0 for unknown, and its text.

    The time is in ns on the recording's clock.
    """

    modified_ns: int
    text: bytes


class SymbolOptions(Record):
    """Facts of the recording (empty or 0 if it does not say) and choices.

    Attributes:
        hostname: of the recorded machine. Processes and files of this machine are asked only if
            it is this one; an empty name is taken for this one.
        recorded_until: end of the recording, seconds since the epoch. Files that changed later,
            and processes that started later, are others than the recorded ones.
        target: that the recording came from, as `--target` was given; "" for none.
        named_by: the user whose word the names of files in it are; root's are read with our rights.
        kernel_release: of the recorded kernel, as uname(2) has it.
        kernel_text: where the recorded kernel was: address of `kernel_text_symbol`, from the
            kernel's own PERF_RECORD_MMAP (its pgoff, and the end of its name).
        kernel_text_symbol: ``_text`` or ``_stext``.
        kernel_symbols: PERF_RECORD_KSYMBOL records, None if there are none.
        names: the strings that `kernel_symbols.name` refers to.
        system_map: a System.map to name the kernel with (-K).
        kernel_image: an uncompressed kernel image to name the kernel with (-L).
        jit_code: by name of mapping, the jitdump file that describes its code.
        jit_maps: by process id, map files that the recording holds.
        starts_of: gives the times at which the programs of a process began, the last one first;
            in ns on the recording's clock, 0 for before the recording.
        epoch_ns: what is added to times of the recording to get ns since the epoch; 0: unknown.
        sysroot: below which recorded files are looked for first, an absolute path; b"" for none.
        debug_dir: directory of debug files that comes before /usr/lib/debug, an absolute path; b""
            for none.
        use_cache: whether symbol tables are kept on disk between runs.
        servers: debug-file servers to ask for what nothing here names, None for none.
        wants_lines: whether they are asked for debug information too, for source lines.
        budget: what all files of names may cost together.
        runtimes: the functions of runtimes that the recording names, None without.
        images: mapped files that the recording holds, as they may be gone.
    """

    hostname: str = ""
    target: str = ""
    recorded_until: float = 0.0
    named_by: int = 0
    kernel_release: str = ""
    kernel_build_id: bytes = b""
    kernel_text: int = 0
    kernel_text_symbol: str = "_text"
    kernel_symbols: KernelSymbols | None = None
    names: Sequence[bytes] = ()
    system_map: str | None = None
    kernel_image: str | None = None
    jit_code: Mapping[bytes, JitCode] = field(default_factory=dict)
    jit_maps: Mapping[int, Sequence[MapCopy]] = field(default_factory=dict)
    starts_of: Callable[[int], Sequence[int]] = _no_starts
    epoch_ns: int = 0
    sysroot: bytes = b""
    debug_dir: bytes = b""
    use_cache: bool = True
    servers: DebugServers | None = None
    wants_lines: bool = False
    budget: ReadBudget = field(default_factory=ReadBudget)
    runtimes: RuntimeCode | None = None
    images: Sequence[KeptImage] = ()

    @property
    def is_of_this_machine(self) -> bool:
        """Whether the recorded processes are this machine's, so that they can be looked at."""
        return not self.target and self.hostname in {"", os.uname().nodename}
