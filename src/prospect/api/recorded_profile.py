"""The Python interface: `record` a command, `open` a recording, look at the `Profile`.

Every option of the command line is a keyword here: those of recording of `record`, those of
naming of `record` and `open`, those of the report of `Profile.report`.
Documented in docs/python.md.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from prospect.analysis.profile_request import Callbacks, ProfileRequest
from prospect.announcing import pluralize
from prospect.api.keywords import AnnouncedOptions, as_text, method_takes, returned_report, takes
from prospect.dimensions import known_dimension, known_sort_keys
from prospect.errors import ProspectError, UsageError
from prospect.estimate import flat_tables
from prospect.files import outputs
from prospect.options import (
    DisassemblerOptions,
    NamingOptions,
    RecordingOptions,
    ReportOptions,
    needed,
    option,
)
from prospect.profile import model
from prospect.records import asdict, project, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.announcing import Announce
    from prospect.options import Detail


class ReportRequest(ReportOptions):
    """Arguments of `Profile.report`."""

    detail: str | int = option(  # type: ignore[assignment]  # checked by renderers
        default="3"
    )
    separate: Sequence[str] = option(  # type: ignore[assignment]  # kept as a tuple
        default=()
    )
    sort: Sequence[str] = option(  # type: ignore[assignment]  # kept as a tuple
        default=()
    )
    output: str = option(
        default="", doc='a file, "" for none; a format that is no text needs one, and returns ""'
    )


class Profile(model.Profile):
    """A profile with its tables as columns, as a data frame, or as the report.

    Each table is a dict of equally long numpy columns; docs/python.md lists their names. Times are
    seconds of CPU time, or of wall time in the tables of waits, turns and the critical path.
    In a notebook it shows its hottest functions and a flame graph.
    """

    def functions_table(self, *, detail: str | int = "3") -> dict[str, NDArray[Any]]:
        """Return the functions as columns, the one with the most time first, with ± of each.

        Args:
            detail: whose time is shown, as in `report`; the other tables take it, too.

        Raises:
            UsageError: there is no such detail.
        """
        return flat_tables.functions_table(self, _known_detail(detail))

    def processes_table(self, *, detail: str | int = "3") -> dict[str, NDArray[Any]]:
        """Return the processes as columns, the one with the most user time first."""
        return flat_tables.processes_table(self, _known_detail(detail))

    def hits_table(self, *, detail: str | int = "3") -> dict[str, NDArray[Any]]:
        """Return samples as columns, added up: process, thread, mode, function, address, seconds.

        A row is the samples that agree in process, thread, instruction and event; `samples` is
        their number.
        """
        return flat_tables.hits_table(self, _known_detail(detail))

    def waits_table(self, *, detail: str | int = "3") -> dict[str, NDArray[Any]]:
        """Return waits as columns: thread, state, entry reason, function, begin (ns), seconds.

        Raises:
            UsageError: the profile has none: it takes `off_cpu` and `stacks`; or no such detail.
        """
        return flat_tables.waits_table(self, _known_detail(detail))

    def path_table(self) -> dict[str, NDArray[Any]]:
        """Return the pieces of the command's critical path: state, thread, begin (ns) and seconds.

        Raises:
            UsageError: the profile has none: it takes a command and `off_cpu`.
        """
        return flat_tables.path_table(self)

    def wall_table(self) -> dict[str, NDArray[Any]]:
        """Return where the command's wall time went, the longest first, with ± of functions.

        The reasons of waits need `stacks`.

        Raises:
            UsageError: the profile has no critical path: it takes a command and `off_cpu`.
        """
        from prospect.api.estimate_columns import wall_table

        return wall_table(self)

    def turns_table(self, *, detail: str | int = "3") -> dict[str, NDArray[Any]]:
        """Return the turns of threads that wait for work: program, kind, begin (ns) and seconds.

        Raises:
            UsageError: the profile has none: it takes `off_cpu`, `stacks`, and such threads.
        """
        return flat_tables.turns_table(self, _known_detail(detail))

    def turn_parts_table(self, *, detail: str | int = "3") -> dict[str, NDArray[Any]]:
        """Return what turns consisted of, by program and kind, with ± of functions.

        `seconds` is of all turns of the kind, whose number is `turns`.

        Raises:
            UsageError: the profile has no turns: it takes `off_cpu`, `stacks`,
                and threads that wait for work.
        """
        from prospect.api.estimate_columns import turn_parts_table

        return turn_parts_table(self, _known_detail(detail))

    def mappings_table(self, *, detail: str | int = "3") -> dict[str, NDArray[Any]]:
        """Return the mappings that processes had samples in as columns."""
        return flat_tables.mappings_table(self, _known_detail(detail))

    def losses_table(self) -> dict[str, NDArray[Any]]:
        """Return lost samples and throttle marks by CPU as columns, of CPUs that lost any."""
        return flat_tables.losses_table(self)

    def columns_table(
        self, columns: str, *, sort: Sequence[str] = ("function",), detail: str | int = "3"
    ) -> dict[str, NDArray[Any]]:
        """Return samples by some keys as columns, with four for each class of samples.

        Args:
            columns: the dimension that classes differ in, as of ``--columns``.
            sort: keys of the rows, as of ``--sort``.
            detail: as of `report`.

        Returns:
            A column for each key, and of each class ``NAME samples``, ``NAME seconds``, ``NAME
            error_seconds`` and ``NAME share``, as ``cpu 0 samples``; the rows of each event follow
            one another, with its name in ``event``, unless `columns` is "event".

        Raises:
            UsageError: the profile does not say, or there is no such dimension.
        """
        from prospect.api.estimate_columns import columns_table

        return columns_table(self, known_dimension(columns), known_sort_keys(sort), str(detail))

    @method_takes(ReportRequest)
    def report(self, asked: ReportRequest) -> str:
        """Return the report as the command line writes it; write it to the file `output` as well.

        Raises:
            UsageError: an option has no meaning.
            RenderError: the file cannot be written.
        """
        from prospect.render.registry import format_of, make_renderer

        shown = replace(
            project(asked, ReportOptions),
            detail=str(asked.detail),  # type: ignore[arg-type]  # checked by renderers
            separate=tuple(asked.separate),
            sort=known_sort_keys(asked.sort),
            columns=asked.columns and known_dimension(asked.columns),
        )
        renderer = make_renderer(asked.format, shown)
        is_binary = format_of(asked.format).is_binary
        if is_binary and not asked.output:
            raise UsageError(f"{asked.format} is not text: name a file as output")
        report = returned_report(asked.output, lambda: partial(renderer.render, self))
        return "" if is_binary else as_text(report)

    def to_arrow(self, table: str = "hits", *, detail: str | int = "3") -> Any:
        """Return one of the tables as a `pyarrow.Table`; `detail` as of the tables.

        Raises:
            UsageError: no such table or detail, or pyarrow is not installed.
        """
        columns = self._table(table, _known_detail(detail))
        try:
            import pyarrow as pa
        except ImportError:
            raise UsageError(_missing("pyarrow")) from None
        return pa.table(columns)

    def to_pandas(self, table: str = "hits", *, detail: str | int = "3") -> Any:
        """Return one of the tables as a `pandas.DataFrame`; `detail` as of the tables.

        Raises:
            UsageError: no such table or detail, or pandas is not installed.
        """
        columns = self._table(table, _known_detail(detail))
        try:
            import pandas as pd
        except ImportError:
            raise UsageError(_missing("pandas")) from None
        return pd.DataFrame(columns)

    def _table(self, name: str, detail: Detail) -> dict[str, NDArray[Any]]:
        if name == "wall":
            return self.wall_table()
        if name == "turn_parts":
            return self.turn_parts_table(detail=detail)
        if name not in flat_tables.TABLES:
            names = ", ".join([*flat_tables.TABLES, "wall", "turn_parts"])
            raise UsageError(f"no table '{name}'; there are {names}")
        return flat_tables.TABLES[name](self, detail)

    def __repr__(self) -> str:
        return f"<prospect.Profile: {self._title()}>"

    def _title(self) -> str:
        import shlex

        what = flat_tables.as_unicode(shlex.join(self.run.command) or self.run.origin)
        return (
            f"{what}: {pluralize(int(self.hits.count.sum()), 'sample')} of "
            f"{pluralize(len(self.processes), 'process')} "
            f"in {self.run.wall_seconds:.2f} s on {pluralize(self.run.cpus, 'CPU')}"
        )

    def _repr_html_(self) -> str:
        from prospect.render.notebook import profile_cell

        return profile_cell(self)


class OpenKeywords(NamingOptions, DisassemblerOptions):
    """Keywords of `open` and `record`."""

    lines: bool = option(
        default=False,
        doc="whether the source line of every sample is wanted, for the tables and the report",
    )
    stacks: bool = option(
        default=False, doc="whether call stacks are wanted, for the formats that show them"
    )
    code: bool = option(
        default=False,
        doc="whether the instructions of every function with a sample are wanted, for the report",
    )


class RecordRequest(OpenKeywords, RecordingOptions):
    """Arguments of `record`."""

    command: str | Sequence[str] = option(
        default=(),
        kw_only=False,
        doc="the words of the command; a string is split as a shell would, without one",
    )
    save: str = option(default="", doc="keep the recording in this file (perf.data format)")
    stacks: bool = option(
        default=False,
        doc="whether call stacks are wanted, for flame graphs and the formats that show them; "
        "those of user space are recorded with `call_graph`",
    )
    pids: Sequence[int] = option(  # type: ignore[assignment]  # kept as a tuple
        default=()
    )
    events: Sequence[str] = option(  # type: ignore[assignment]  # kept as a tuple
        default=()
    )
    announce: Announce | None = option(
        default=None,
        doc="called with what is being done once the command has ended, and how far it is",
    )


@takes(RecordRequest)
def record(asked: RecordRequest) -> Profile:
    """Run a command, or attach to processes, record what the machine does, return the profile.

    The command's own output goes where the interpreter's goes. Without `save`, the recording is
    not kept.

    Raises:
        CommandError: the command cannot be started.
        CaptureError: the kernel does not let this user record at all; see ``prospect doctor``.
        UsageError: a keyword has no meaning.
    """
    from prospect.recording.opened_events import RecordOptions
    from prospect.recording.run import record as record_command

    recording = project(asked, RecordingOptions)
    _check_rate(recording)
    is_attached = bool(recording.pids) or recording.for_s is not None
    order = RecordOptions(
        **asdict(recording),
        command=() if is_attached and not asked.command else _words(asked.command),
        command_line=tuple(sys.argv),
        use_cache=asked.use_cache,
        images="packed" if asked.save else "raw",
    )
    with outputs.RecordingFile(asked.save) as file:
        try:
            record_command(order, file.descriptor)
        except ProspectError:
            file.withdraw()
            raise
        try:
            path = f"/proc/self/fd/{file.descriptor}"
            return read(path, asked, _wanted(asked), Callbacks(asked.announce))
        except Exception as error:
            if path := file.keep():
                error.add_note(f"the recording is kept: {path}")
            raise


class OpenRequest(OpenKeywords, AnnouncedOptions):
    """Arguments of `open`."""

    path: str | os.PathLike[str] = needed(
        kw_only=False,
        doc='a perf.data file, folded stacks, a profile of pprof or a gmon.out; "-" for a '
        "recording on standard input",
    )
    program: str = option(
        default="",
        doc='of a gmon.out, the program that wrote it; "" for ``a.out`` in the same directory',
    )


@takes(OpenRequest)
def open(asked: OpenRequest) -> Profile:
    """Read a recording by Prospect or by perf, or a profile of another tool, and return it.

    Raises:
        RecordingError: it cannot be read, or is no recording.
        UsageError: a keyword has no meaning.
    """
    path, sinks = os.fsdecode(asked.path), Callbacks(asked.announce)
    return read(path, asked, _wanted(asked), sinks, asked.program)


def _wanted(asked: OpenKeywords) -> ProfileRequest:
    wanted = ProfileRequest(lines=asked.lines, stacks=asked.stacks, turns=asked.stacks)
    if not asked.code:
        return wanted
    from prospect.assembly.code.code import code_of_report

    return replace(wanted, code=code_of_report(asked))


def read(
    path: str, naming: NamingOptions, wanted: ProfileRequest, sinks: Callbacks, program: str = ""
) -> Profile:
    """Read a recording as `open` does, with options that are not its keywords."""
    from prospect.analysis.reading import read_profile  # a store needs none of it

    profile = read_profile(path, naming, wanted, sinks, program)
    return Profile(**asdict(profile))


def _check_rate(options: RecordingOptions) -> None:
    for keyword in ("frequency_hz", "clocks", "flush_centiseconds", "max_bytes"):
        value = getattr(options, keyword)
        if not isinstance(value, int) and not (keyword == "max_bytes" and value is None):
            raise UsageError(f"record: {keyword} is a whole number, not {value!r}")
    percent = options.overhead_percent
    if not isinstance(percent, (int, float, type(None))):
        raise UsageError(f"record: overhead_percent is a number, not {percent!r}")
    if percent is not None and options.frequency_hz != RecordingOptions.frequency_hz:
        raise UsageError("record: overhead_percent chooses the rate: leave out frequency_hz")


def _words(command: str | Sequence[str]) -> tuple[str, ...]:
    """Return the words of a command."""
    import shlex

    try:
        words = tuple(
            map(os.fsdecode, shlex.split(command) if isinstance(command, str) else command)
        )
    except ValueError as error:
        raise UsageError(f"record: {command!r}: {error}") from None
    except TypeError:
        raise UsageError(
            f"record: a command is a string or a sequence of strings, not {command!r}"
        ) from None
    if not words or not words[0]:
        raise UsageError("record: an empty command")
    return words


def _known_detail(detail: str | int) -> Detail:
    """Return a detail of `-V`.

    Raises:
        UsageError: it is unknown.
    """
    from prospect.figures.processes import DETAILS

    for known in DETAILS:
        if str(detail) == known:
            return known
    raise UsageError(f"detail={detail!r} is not one of {', '.join(DETAILS)}")


def _missing(library: str) -> str:
    import shlex

    return f"{library} is not installed: {shlex.quote(sys.executable)} -m pip install {library}"
