"""Facts of the recording that naming needs, and the user's choices."""

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
    """Debug-file servers, and bounds on their cost.

    Attributes:
        urls: prefixes of addresses, in the order of requests.
        budget_s: time for all requests of a report together.
        prompt_s: time for the first 100 KiB of an answer.
        whole_s: time for one file.
        most_bytes: largest size of a file.
        notes: sentences about invalid words of the variable.
    """

    urls: tuple[str, ...]
    budget_s: float = DEBUG_SERVERS_S
    prompt_s: float = PROMPT_S
    whole_s: float = DEBUG_SERVERS_S
    most_bytes: int = USUAL_DOWNLOAD_BYTES
    notes: tuple[str, ...] = ()


def debug_servers(environment: Mapping[str, str], budget_s: float) -> DebugServers | None:
    """Read the variables of debuginfod-client-config(7); None if there is no server to ask.

    `budget_s` is the time for all requests of a report, 0 for no requests.
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
    """Return a variable's number; the default if it has none above 0."""
    text = environment.get(name, "")
    return float(text) if text.isascii() and text.isdigit() and int(text) else default


def _no_starts(_pid: int) -> Sequence[int]:
    return ()


class MapCopy(NamedTuple):
    """A map file in a recording; its time of change is on the recording's clock, 0 if unknown."""

    modified_ns: int
    text: bytes


class SymbolOptions(Record):
    """Facts of the recording (empty or 0 if unknown) and choices.

    Attributes:
        hostname: of the recorded machine. Processes and files of this machine are used only if it
            is this one or empty.
        target: the `--target` of the recording; "" for none.
        recorded_until: end of the recording, seconds since the epoch. Files that changed later,
            and processes that started later, are not the recorded ones.
        named_by: the user whose rights open the files that the recording names; ours for root.
        kernel_release: of the recorded kernel, as in uname(2).
        kernel_text: recorded address of `kernel_text_symbol`, from the kernel's PERF_RECORD_MMAP
            (its pgoff, and the end of its name).
        kernel_text_symbol: ``_text`` or ``_stext``.
        kernel_symbols: PERF_RECORD_KSYMBOL records, None if there are none.
        names: the strings that `kernel_symbols.name` refers to.
        system_map: a System.map for the kernel (-K).
        kernel_image: an uncompressed kernel image for the kernel (-L).
        jit_code: jitdump files, by the names of the mappings that they describe.
        jit_maps: map files in the recording, by process id.
        starts_of: returns the times at which the programs of a process began, the last one first;
            in ns on the recording's clock, 0 for before the recording.
        epoch_ns: add it to a time of the recording to get ns since the epoch; 0 for unknown.
        sysroot: directory to search first for recorded files, an absolute path; b"" for none.
        debug_dir: directory of debug files to search before /usr/lib/debug, an absolute path; b""
            for none.
        use_cache: whether symbol tables are kept on disk between runs.
        servers: debug-file servers for files that this machine lacks, None for none.
        wants_lines: whether to ask them for debug information of source lines too.
        budget: of memory for all files of names.
        runtimes: the functions of runtimes in the recording, None if there are none.
        images: copies of mapped files in the recording.
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
        """Whether the recorded processes may still run on this machine."""
        return not self.target and self.hostname in {"", os.uname().nodename}
