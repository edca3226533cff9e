"""The finished report: every figure that a format writes, each computed when first read.

Formats only choose and write: none of them computes a figure.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from prospect.errors import UsageError
from prospect.estimate.accounting.agreement import agreements
from prospect.estimate.accounting.lateness import late_functions, sample_lateness
from prospect.estimate.accounting.sample_accounting import sample_accounting
from prospect.estimate.clocks.grid import tick_grid
from prospect.estimate.errors.design import sampling_design
from prospect.estimate.errors.event_estimates import event_estimates
from prospect.figures.report.accounting import own_cost
from prospect.figures.report.report_view import EventView, ReportView
from prospect.records import replace

if TYPE_CHECKING:
    from prospect.estimate.accounting.agreement import Agreement
    from prospect.estimate.accounting.lateness import LateFunctions, Lateness
    from prospect.estimate.accounting.sample_accounting import SampleAccounting
    from prospect.estimate.annotate.event_lines import EventCode, EventLines
    from prospect.estimate.call_figures import CallFigures
    from prospect.estimate.clocks.grid import Grid
    from prospect.estimate.errors.call_estimates import CallEstimates
    from prospect.estimate.errors.design import Design
    from prospect.estimate.errors.event_estimates import EventEstimates
    from prospect.estimate.turn_account import TurnAccount
    from prospect.estimate.wall_account import WallAccount
    from prospect.estimate.with_callees import CalleesRow
    from prospect.figures.calls.calls_view import CallsView
    from prospect.figures.report.accounting import OwnCost
    from prospect.options import Detail
    from prospect.profile.model import Profile


class EventReport(EventView):
    """One event of a report: its figures, and the estimates for them."""

    report: Report

    @cached_property
    def design(self) -> Design:
        """How its samples were taken."""
        return sampling_design(self.report.by_function, self.event_index, self.report.grid)

    @cached_property
    def estimates(self) -> EventEstimates:
        """Error bars and marks of its tables."""
        return event_estimates(self, self.design)

    @cached_property
    def late(self) -> LateFunctions | None:
        """Late shares of its kernel functions; None if its clock is no timer."""
        return late_functions(self.report.by_function, self, self.report.lateness)

    @cached_property
    def accounting(self) -> tuple[Agreement, ...]:
        """Its times compared with the kernel's own accounting."""
        return agreements(self.report.profile, self, self.report.sample_accounting)

    @cached_property
    def call_counts(self) -> CallFigures | None:
        """How often functions were called; None if nothing was counted."""
        profile = self.report.profile
        if profile.call_counts is None:
            return None
        from prospect.estimate.call_figures import call_figures  # noqa: PLC0415 - rarely asked for

        return call_figures(profile.call_counts, profile, self.event_index, self.report.detail)

    @cached_property
    def with_callees(self) -> tuple[CalleesRow, ...]:
        """The functions that spend most with all that they call; none without call chains."""
        profile = self.report.profile
        if profile.stacks is None:
            return ()
        from prospect.estimate.with_callees import callees_of_event  # noqa: PLC0415 - only with stacks

        return callees_of_event(profile, self.report.detail, self.event_index)

    @cached_property
    def code(self) -> EventCode | None:
        """Its hits by instruction; None unless asked for."""
        if not self.report.disassemble:
            return None
        from prospect.estimate.annotate.event_lines import event_code  # noqa: PLC0415 - rarely asked for

        return event_code(self.report, self, self.report.disassemble)

    @cached_property
    def lines(self) -> EventLines | None:
        """Its hits by source line; None unless asked for."""
        if not self.report.lines:
            return None
        from prospect.estimate.annotate.event_lines import event_lines  # noqa: PLC0415 - rarely asked for

        return event_lines(self.report, self)


class Report(ReportView):
    """A report with its estimates and its accounting.

    `sample_accounting` and `lateness` are None if no clock keeps a grid: hardware counters, and the
    clocks of single tasks, which stop whenever the task does.

    Attributes:
        disassemble: shows instructions: 0 none, 1 those of the functions that pass the thresholds,
            2 those of every one.
        lines: shows hits by source line.
    """

    def __init__(  # noqa: PLR0913 - a keyword for each part that few ask for
        self,
        profile: Profile,
        detail: Detail = "3",
        user_threshold_s: float = 0.02,
        kernel_threshold_s: float = 0.02,
        *,
        disassemble: int = 0,
        lines: bool = False,
    ) -> None:
        """Check the options: the arguments of `ReportView` and the attributes here.

        Raises:
            UsageError: an invalid option, or instructions or lines without a profile that has them.
        """
        super().__init__(profile, detail, user_threshold_s, kernel_threshold_s)
        if disassemble and profile.code is None:
            raise UsageError(
                "the profile has no instructions: one of another tool never has; "
                "in Python, open a recording with code=True"
            )
        if lines and profile.lines is None:
            raise UsageError(
                "the profile has no source lines: one of another tool never has; "
                "in Python, open a recording with lines=True"
            )
        self.disassemble = disassemble
        self.lines = lines

    @cached_property
    def events(self) -> tuple[EventReport, ...]:
        """The events with hits, or the first event."""
        return tuple(EventReport(self, index) for index in self.present_events())

    @cached_property
    def grid(self) -> Grid | None:
        """The ticks of the clocks that took the samples; None if no clock keeps a grid."""
        return tick_grid(self.by_function)

    @cached_property
    def sample_accounting(self) -> SampleAccounting | None:
        """The fate of the clocks' ticks."""
        return sample_accounting(self.by_function, self.grid) if self.grid is not None else None

    @cached_property
    def lateness(self) -> Lateness | None:
        """Which samples came late."""
        return sample_lateness(self.by_function, self.grid) if self.grid is not None else None

    @cached_property
    def cost(self) -> OwnCost:
        """The cost of profiling."""
        return own_cost(self.by_function)

    @cached_property
    def wall(self) -> WallAccount | None:
        """Where the wall time of COMMAND went; None if its switches were not recorded."""
        if self.profile.wall is None:
            return None
        from prospect.estimate.wall_account import wall_account  # noqa: PLC0415 - of switches only

        return wall_account(self.profile, self.by_function, self.events[0].event_index)

    @cached_property
    def turns(self) -> TurnAccount | None:
        """The turns of threads that wait for work; None if none is known."""
        if self.profile.turns is None:
            return None
        from prospect.estimate.turn_account import turn_account  # noqa: PLC0415 - of switches only

        event_index = self.events[0].event_index
        return turn_account(self.profile, self.by_function, event_index, self.detail)

    def calls(
        self, sections: tuple[str, ...]
    ) -> tuple[CallsView, tuple[CallEstimates, ...]] | None:
        """Return callers and callees, with their error bars; None if no sample has a call chain.

        `sections` are those of `prospect calls --show`.
        """
        if self.profile.stacks is None:
            return None
        from prospect.estimate.errors.call_estimates import estimate_calls  # noqa: PLC0415 - rarely asked for
        from prospect.figures.calls.calls_view import CallsChoice, calls_view  # noqa: PLC0415 - rarely asked for
        from prospect.figures.calls.sample_choice import SampleChoice  # noqa: PLC0415 - rarely asked for

        # Lines that were not asked for are those of the first screen: some of the user's own code.
        lines = self.profile.lines if self.lines else None
        sampled = replace(self.profile, waits=None, lines=lines)
        found = calls_view(sampled, CallsChoice(SampleChoice(self.detail), sections))
        return found, estimate_calls(found)
