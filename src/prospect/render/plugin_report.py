"""Formats of other packages: functions that get a `PluginReport` and an open binary file.

docs/plugins.md builds one.
"""

from __future__ import annotations

import io
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.errors import UsageError
from prospect.estimate.flat_tables import TABLES
from prospect.figures.processes import chosen_hits, chosen_waits
from prospect.figures.selection import only_used
from prospect.plugins import FORMATS, called, plugin
from prospect.profile.complete import complete
from prospect.records import replace
from prospect.render.renderer import Renderer, write_pieces

if TYPE_CHECKING:
    from typing import BinaryIO

    from numpy.typing import NDArray

    from prospect.options import Detail
    from prospect.profile.model import Profile
    from prospect.profile.run_info import RunInfo


class PluginReport:
    """The input of a plug-in's format: the samples of the processes that `-V` selects.

    Attributes:
        run: the facts of the run: `command`, `wall_seconds`, `cpus`, `hostname` and others.
        detail: `-V`: "2" the command, "3" its descendants too, "4" every process, "k" the kernel.
        recording: the recording as a command line names it, "" if it is not kept.
    """

    def __init__(self, profile: Profile, detail: Detail, recording: str) -> None:
        self.run: RunInfo = profile.run
        self.detail = detail
        self.recording = recording
        self._profile = profile

    def table(self, name: str) -> dict[str, NDArray[Any]]:
        """Return a table as equally long columns, numpy arrays by name.

        Args:
            name: "functions", "processes", "hits", "waits", "mappings" or "losses"; docs/python.md
                has their columns.

        Raises:
            UsageError: there is no such table.
        """
        if name not in TABLES:
            raise UsageError(f"there is no table '{name}'; there are {', '.join(TABLES)}")
        if name == "functions":  # their errors are those of the whole recording's clocks
            return TABLES[name](self._profile, self.detail)
        return TABLES[name](self._profile if name in ("mappings", "losses") else self._chosen)

    @cached_property
    def _chosen(self) -> Profile:
        profile = complete(self._profile)
        chosen = chosen_hits(profile, self.detail)
        hits = replace(profile.hits, count=np.where(chosen, profile.hits.count, 0))
        waits = chosen_waits(profile, self.detail)
        is_whole = chosen.all() and (waits is None or len(waits) == len(profile.waits or ()))
        return profile if is_whole else only_used(replace(profile, hits=hits, waits=waits))


class PluginRenderer(Renderer):
    """The format of another package, whose entry point has the name of the format."""

    def render(self, profile: Profile, out: BinaryIO) -> None:
        """Write the plug-in's output, once it is complete.

        Raises:
            PluginError: the plug-in failed.
            UsageError: there is no such plug-in any more.
            RenderError: `out` cannot be written.
        """
        function = plugin(FORMATS, self.format)
        if function is None:
            raise UsageError(f"there is no format '{self.format}'")
        made = io.BytesIO()
        called(function, PluginReport(profile, self.detail, self.recording), made)
        write_pieces([made.getvalue()], out)
