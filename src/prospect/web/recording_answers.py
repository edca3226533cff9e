"""Answers to a page's requests: its data blocks, cells of a selection, code of a function.

They are bytes as the page's script reads them. The profile stays in memory; the recording is not
read again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.errors import ProspectError
from prospect.estimate.annotate.annotation_view import annotation_view
from prospect.figures.function_choice import FunctionChoice
from prospect.figures.modes import event_has_time
from prospect.records import Record, replace
from prospect.render.encoding import encoded
from prospect.render.html.cells import Selection, event_parts, stack_names
from prospect.render.html.instructions import NO_CODE, code_fields, instruction_slots, source_block
from prospect.render.html.page import SCRIPTS, page_samples
from prospect.render.html.stacks import block_of_events, block_of_part, events_of
from prospect.render.html.whole_file import document
from prospect.render.json.common_fields import disassembly_fields

if TYPE_CHECKING:
    from prospect.assembly.code.code import CodeChoice
    from prospect.assembly.code.later_code import LaterCode
    from prospect.options import Detail
    from prospect.profile.model import Profile
    from prospect.profile.optional_tables import CodeTable
    from prospect.render.html.cells import EventParts, StackNames
    from prospect.render.html.page import HtmlRenderer

_INLINED = "inlined: its instructions are in the functions that it was inlined into"
_NO_FUNCTION = "no function is known at these addresses"
_NOT_KEPT = "a store keeps no code: make a recording"
_NO_CODE = "this is another tool's profile, which does not say where its code is"


class CodeFinder(Record):
    """Finds the instructions of a profile's functions.

    Attributes:
        later: reads the files of the profile; None without any.
        choice: how instructions are written; each request chooses the function.
    """

    later: LaterCode | None
    choice: CodeChoice

    def find(self, profile: Profile, function: int) -> CodeTable | str:
        """Return the instructions of one function, or the reason that there are none."""
        if self.later is None:
            return _NOT_KEPT if profile.run.store_part else _NO_CODE
        only = np.array([function], np.int64)
        choice = replace(self.choice, choose=lambda _: only, with_lines=True)
        try:
            return self.later.describe(profile, choice)
        except ProspectError as error:
            return str(error)


class ServedRecording(Record):
    """A recording that is served.

    Attributes:
        profile: as it was read, with its waits.
        detail: the `-V` of its report.
        parts: the samples, by the number of the event on the page.
        blocks: the page's data by name.
    """

    profile: Profile
    detail: Detail
    names: StackNames
    parts: list[EventParts]
    blocks: dict[str, bytes]
    finder: CodeFinder

    def part(self, event: int, selection: Selection) -> bytes:
        """Return the cells of a selection.

        Raises:
            IndexError: the page has no such event.
        """
        parts = self.parts[event]
        return block_of_part(self.names, parts.event, parts.cells(selection))

    def hits(self, event: int, frame: int, selection: Selection) -> bytes:
        """Return the samples of a selection by address in a function itself, as JSON.

        `event` is a number on the page, `frame` a row of the names' frames.

        Raises:
            IndexError: the page has no such event or frame.
        """
        parts = self.parts[event]
        found = parts.at_addresses(int(self.names.frames.function_index[frame]), selection)
        has_time = event_has_time(self.names.samples.profile.run.events[parts.event])
        weights = found.time_ns / 1e9 if has_time else found.count
        fields = {
            "addresses": list(map(str, found.address.tolist())),  # more than a JavaScript number
            "samples": found.count.tolist(),
            "weights": weights.tolist(),
        }
        return encoded(fields)

    def code(self, event: int, frame: int) -> bytes:
        """Return the instructions of a function with hits, and their source, as JSON.

        `event` is a number on the page, `frame` a row of the names' frames.

        Raises:
            IndexError: the page has no such event or frame.
        """
        row = self.parts[event].event
        function = int(self.names.frames.function_index[frame])
        if not 0 <= function < len(self.profile.functions):
            return _no_code(_INLINED if function < 0 else _NO_FUNCTION)
        code = self.finder.find(self.profile, function)
        if isinstance(code, str):
            return _no_code(code)
        choice = FunctionChoice(detail="k" if self.detail == "k" else "4")
        view = annotation_view(replace(self.profile, code=code), choice)
        info = view.profile.run.events[row]
        functions = [one for found in view.events if found.event is info for one in found.functions]
        shown = disassembly_fields(view.profile, code, functions)
        reason = "" if shown else "no samples in this function itself"
        source = code_fields(self.names, instruction_slots(self.names, code))
        return encoded({"functions": shown, "reason": reason, "source": source})


def _no_code(reason: str) -> bytes:
    return encoded({"functions": [], "reason": reason, "source": NO_CODE})


def serve_profile(profile: Profile, renderer: HtmlRenderer, finder: CodeFinder) -> ServedRecording:
    """Prepare a profile, so that each answer takes a fraction of a second.

    Raises:
        UsageError: an option has no meaning.
    """
    with renderer.report(profile) as report:
        names = stack_names(page_samples(report))
        parts = [event_parts(names, event) for event in events_of(names)]
        cells = {one.event: one.cells(Selection(is_by_time=True)) for one in parts}
        blocks = {
            "report": renderer.report_block(report),
            "source": source_block(names, None),
            "stacks": block_of_events(names, cells),
        }
        return ServedRecording(profile, report.detail, names, parts, blocks, finder)


def page() -> bytes:
    """Return the page itself, which has nothing of any recording."""
    return b"".join(document("report", ("served", *SCRIPTS), {}, is_served=True))
