"""OProfile's XML: samples by program, object and symbol, for readers of ``opreport --xml``.

A program is a ``binary``; its ``module``s are the objects mapped into it and the kernel, as with
OProfile's ``separate=library``. A binary's count is that of its own image, without its modules; it
is left out if the image has no samples. With several events, each is a ``class``. The schema has no
room for error bars.

Source: OProfile 1.4, ``doc/opreport.xsd``, schema version 3.1.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.sax.saxutils import quoteattr

import numpy as np

from prospect.figures.processes import chosen_hits
from prospect.figures.shown_rows import shown_name
from prospect.profile.naming import NameSource
from prospect.render.renderer import FiguresRenderer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.estimate.finished_report import Report
    from prospect.profile.complete import CompleteProfile
    from prospect.profile.run_info import EventInfo, RunInfo

# A module's symbols, each with its hits by event; a binary's modules.
_Counts = dict[int, int]
_Symbols = dict[int, _Counts]
_Binaries = dict[str, dict[int, _Symbols]]

_NOTHING = "(nothing was hit)"
# XML 1.0, 2.2: other characters have no place in a document.
_NO_CHARACTER = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NO_NAME_CHARACTER = re.compile(r"[^A-Za-z0-9._-]+")


class OprofileXmlRenderer(FiguresRenderer):
    """Samples of every symbol, also of those that `-m` and `-k` leave out of other formats."""

    def pieces(self, report: Report) -> Iterator[bytes]:
        """Yield the document, a program at a time."""
        profile = report.profile
        events = profile.run.events
        binaries = _binaries(report)
        yield _head(profile.run).encode()
        yield _setup(events).encode()
        symbols: dict[int, int] = {}
        for name, modules in binaries.items():
            yield _binary(profile, name, modules, symbols).encode()
        if not binaries:
            yield f"<binary name={_quoted(_NOTHING)}><count>0</count></binary>\n".encode()
        yield "".join(_symbol_table(profile, symbols)).encode()
        yield b"</profile>\n"


def _binaries(report: Report) -> _Binaries:
    """Add hits up by program, object, function and event, in the order of their sums."""
    profile = report.profile
    hits = profile.hits
    at = np.flatnonzero(chosen_hits(profile, report.detail))
    function = profile.locations.function_index.take(hits.location_index.take(at))
    sums: dict[tuple[str, int, int, int], int] = {}
    names = profile.processes.name
    columns = (
        hits.process_index.take(at).tolist(),
        profile.functions.object_index.take(function).tolist(),
        function.tolist(),
        hits.event.take(at).tolist(),
        hits.count.take(at).tolist(),
    )
    for process, image, symbol, event, count in zip(*columns, strict=True):
        key = (names[process], image, symbol, event)
        sums[key] = sums.get(key, 0) + count
    found: _Binaries = {}
    for (program, image, symbol, event), count in sorted(
        sums.items(), key=lambda item: (-item[1], item[0])
    ):
        symbols = found.setdefault(program, {}).setdefault(image, {})
        symbols.setdefault(symbol, {})[event] = count
    return found


def _head(run: RunInfo) -> str:
    mhz = f"{run.cpu_mhz:.3f}" if 0 < run.cpu_mhz < 1e9 else "0"
    title = f"System-wide profile of {run.hostname}" if run.system_wide else " ".join(run.command)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<profile title={_quoted(title or run.origin)} schemaversion="3.1"'
        f' cputype="{_name(run.arch)}" processor="{_name(run.cpu_description)}" mhz="{mhz}">\n'
        '<options debuginfo="false" details="false"/>\n'
    )


def _setup(events: tuple[EventInfo, ...]) -> str:
    """Return the sampled events: a single clock is OProfile's timer."""
    if len(events) == 1 and events[0].seconds_per_period > 0 and not events[0].is_waiting:
        hertz = max(round(events[0].frequency_hz), 0)
        return f'<setup>\n<timersetup rtcinterrupts="{hertz}"/>\n</setup>\n'
    lines = ["<setup>\n"]
    for number, event in enumerate(events):
        # Events that are sampled at a rate have no count.
        lines.append(
            f'<eventsetup id="{number}" eventname="{_name(event.name)}" setupcount="0"/>\n'
        )
    lines.append("</setup>\n")
    if len(events) > 1:
        lines.append("<classes>\n")
        lines += [f'<class name="e{row}" event="{row}"/>\n' for row in range(len(events))]
        lines.append("</classes>\n")
    return "".join(lines)


def _binary(
    profile: CompleteProfile, name: str, modules: dict[int, _Symbols], known: dict[int, int]
) -> str:
    """Return a program: its own image's count and symbols, then its modules."""
    parts = [f"<binary name={_quoted(name)}>\n"]
    # A process's name is that of its image, cut off after 15 bytes.
    own = [
        image
        for image in modules
        if profile.objects.path[image].rpartition("/")[2][:15] == name[:15]
    ]
    parts.append(_count_of(profile, [modules[image] for image in own]))
    for image in own:
        parts += _symbols(profile, modules[image], known)
    for image, symbols in modules.items():
        if image not in own:
            parts.append(f"<module name={_quoted(profile.objects.path[image] or '(unknown)')}>\n")
            parts.append(_count_of(profile, [symbols]))
            parts += _symbols(profile, symbols, known)
            parts.append("</module>\n")
    return "".join((*parts, "</binary>\n"))


def _symbols(profile: CompleteProfile, symbols: _Symbols, known: dict[int, int]) -> Iterator[str]:
    for symbol, counts in symbols.items():
        number = known.setdefault(symbol, len(known))
        yield f'<symbol idref="{number}">{_count(profile, counts)}</symbol>\n'


def _count_of(profile: CompleteProfile, modules: list[_Symbols]) -> str:
    sums: _Counts = {}
    for symbols in modules:
        for counts in symbols.values():
            for event, count in counts.items():
                sums[event] = sums.get(event, 0) + count
    return _count(profile, sums) + "\n" if sums else ""


def _count(profile: CompleteProfile, counts: _Counts) -> str:
    if len(profile.run.events) < 2:
        return f"<count>{sum(counts.values())}</count>"
    return "".join(f'<count class="e{event}">{counts[event]}</count>' for event in sorted(counts))


def _symbol_table(profile: CompleteProfile, known: dict[int, int]) -> Iterator[str]:
    functions = profile.functions
    yield "<symboltable>\n"
    for symbol, number in known.items():
        has_name = NameSource(int(functions.source[symbol])).named
        extent = (
            f' startingaddr="{int(functions.address[symbol]):x}"'
            f' codelength="{int(functions.size_bytes[symbol])}"'
            if has_name
            else ""
        )
        name = shown_name(functions, symbol)
        yield f'<symboldata id="{number}" name={_quoted(name)}{extent}/>\n'
    if not known:
        yield f'<symboldata id="0" name={_quoted(_NOTHING)}/>\n'
    yield "</symboltable>\n"


def _quoted(text: str) -> str:
    """Return a quoted attribute; a character that XML has no place for is its number."""
    return quoteattr(_NO_CHARACTER.sub(lambda found: f"\\x{ord(found[0]) & 0xFF:02x}", text))


def _name(text: str) -> str:
    """Return text as an XML name (NCName): letters, digits, dots and dashes."""
    name = _NO_NAME_CHARACTER.sub("_", text).strip("_")
    return name if name[:1].isalpha() else f"_{name}"
