"""The instructions of a function with its hits: the lines of ``prospect annotate``, at this moment.

The code is read once, from the image that is mapped on this machine or from the running kernel's
memory; hits are new each time.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import numpy as np

from prospect.assembly.code.code import CodeChoice, describe_code
from prospect.assembly.code.recorded_objects import RecordedObjects
from prospect.columns.sorting import distinct
from prospect.estimate.annotate.annotation_view import annotation_view
from prospect.figures.function_choice import FunctionChoice
from prospect.lines.finder import LineFinder
from prospect.profile.model import KIND_ELF, KIND_VDSO
from prospect.records import Record, field, replace
from prospect.render.text.listing import BOXES, Form, Listing
from prospect.render.text.numbers import Figures
from prospect.render.text.style import Style
from prospect.symbols.naming_options import SymbolOptions
from prospect.symbols.objects import ObjectKey
from prospect.symbols.symbolizer import Symbolizer
from prospect.symbols.table_cache import SymbolCache
from prospect.tui.groups import functions_of
from prospect.tui.rows import HOT, Page, Row

if TYPE_CHECKING:
    from prospect.profile.complete import CompleteProfile
    from prospect.profile.source_tables import CodeTable
    from prospect.tui.figures import LiveFigures
    from prospect.tui.rows import Function

_NO_HITS = "This function has no samples here yet."
_MOST_LINES = 2000
_OPTION = " with -L"
_SKID = "A sample is at the instruction after the one that took the time."


def function_code(profile: CompleteProfile, function: int, *, use_cache: bool = True) -> CodeTable:
    """Disassemble a function of a profile that was made on this machine a moment ago.

    Args:
        profile: completed.
        function: a row of its functions.
        use_cache: whether symbol tables are kept on disk between runs.
    """
    row = int(profile.functions.object_index[function])
    objects = profile.objects
    kind = int(objects.kind[row])
    here = SymbolOptions(
        recorded_until=time.time(), kernel_release=os.uname().release, use_cache=use_cache
    )
    keys = {}
    if kind in (KIND_ELF, KIND_VDSO):
        path = objects.path[row].encode("utf-8", "surrogateescape")
        keys[row] = ObjectKey(path, bytes.fromhex(objects.build_id[row]), kind=kind)
    recorded = RecordedObjects(
        keys=keys,
        pids={row: _pids(profile, function)},
        options=here,
        symbolizer=Symbolizer(here),
        lines=LineFinder(SymbolCache.of_user() if use_cache else None),
    )
    choice = CodeChoice(lambda _: np.array([function], np.int64))
    return describe_code(profile, recorded, choice)


def _pids(profile: CompleteProfile, function: int) -> list[int]:
    """Return the processes that hit a function."""
    of_hit = profile.locations.function_index.take(profile.hits.location_index) == function
    processes = distinct(profile.hits.process_index[of_hit])
    pids = profile.processes.pid.take(processes)
    found: list[int] = distinct(pids[pids > 0]).tolist()
    return found


class CodeMemory(Record, frozen=False):
    """The code of functions that were looked at; code does not change from refresh to refresh."""

    use_cache: bool = True
    _known: dict[tuple[Function, str], CodeTable] = field(default_factory=dict)

    def page(self, figures: LiveFigures, shown: Function) -> Page:
        """Return the instructions of a function, with the hits of all its processes."""
        functions = functions_of(figures.profile, shown)
        if not len(functions):
            return Page((), is_text=True, note=_NO_HITS)
        profile = figures.profile
        # A program that is built again while one looks is another object of the same path.
        hits = np.bincount(figures.function, profile.hits.count, len(profile.functions))
        function = int(functions[hits.take(functions).argmax()])
        build = shown, profile.objects.build_id[int(profile.functions.object_index[function])]
        code = self._known.get(build)
        if code is None or code.reason[0]:
            code = function_code(profile, function, use_cache=self.use_cache)
            self._known[build] = code
        code = replace(code, function_index=np.array([function], np.int32))
        return _listing(replace(figures.profile, code=code), code, figures.event_index)


def _why_no_code(reason: str) -> str:
    """Say why; the options that help are those of another command."""
    how = " to prospect annotate, of the recording that s saves" if _OPTION in reason else ""
    return f"No instructions: {reason}{how}."


def _listing(profile: CompleteProfile, code: CodeTable, event_index: int) -> Page:
    if code.reason[0]:
        return Page((), is_text=True, note=_why_no_code(code.reason[0]))
    view = annotation_view(profile, FunctionChoice(detail="4"))
    event_name = profile.run.events[event_index].name
    found = [event for event in view.events if event.event.name == event_name]
    if not found:
        return Page((), is_text=True, note=_NO_HITS)
    event = found[0]
    numbers = Figures(event.hits, event.seconds, has_time=event.has_time)
    start = int(view.profile.functions.address[event.functions[0].function])
    form = Form(whole=False, glyphs=BOXES, figures=numbers, style=Style(colour=False))
    shown = event.functions[0]
    listing = Listing(code, shown, start, form)
    lines = list(listing.lines())
    hottest = next((at for at, line in enumerate(lines) if line[1:3] == (shown.hottest, 0)), 0)
    begin = max(min(hottest - _MOST_LINES // 2, len(lines) - _MOST_LINES), 0)
    rows = tuple(
        Row(key=(line.instruction, line.part), name=line.text, paint=HOT if line.is_hot else "")
        for line in lines[begin : begin + _MOST_LINES]
    )
    return Page(
        rows,
        more=len(lines) - len(rows),
        is_text=True,
        title=listing.title,
        opens_at=hottest - begin,
        note=_SKID if event.skid else "",
    )
