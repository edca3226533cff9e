"""Make the profile of each part of drained records, and of all remembered parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.abi.recorded_facts import RecordBlock
from prospect.analysis.pipeline import profile_of_events
from prospect.analysis.profile_request import Callbacks, ProfileRequest
from prospect.assembly.tables.clocks import clock_of_id
from prospect.assembly.threads.waits import switch_event
from prospect.columns.sorting import distinct
from prospect.events.decode import decode
from prospect.live.carried import LastSwitches, LoadedPrograms, PythonNames
from prospect.live.joined import JoinedProfile
from prospect.live.live_limits import MOST_GROUPS, MOST_PARTS
from prospect.live.tasks import LiveTasks, pids_of
from prospect.options import NamingOptions
from prospect.profile.model import BIRTH_PREEXISTING
from prospect.records import replace
from prospect.symbols.kept_names import KeptNames

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from prospect.abi.attr import EventDescription
    from prospect.abi.recorded_facts import RecordingInfo
    from prospect.events.record_columns import Events
    from prospect.live.carried import Followed
    from prospect.live.record_limiters import Bounds
    from prospect.live.source import FetchNames, Running
    from prospect.live.tasks import Birth
    from prospect.profile.group_names import ContainerFacts
    from prospect.profile.model import ProcessTable, Profile

# The parts that are forgotten when the memory is full.
_FORGOTTEN_SHARE = 0.25


class GrowingProfile:
    """The profile of a session.

    Attributes:
        tasks: the processes at the end of the last part.
        fetch_names: see `Source`; None for no fetching.
        name_containers: see `Source`; None for no names.
    """

    def __init__(
        self,
        bounds: Bounds,
        *,
        stacks: bool,
        use_cache: bool,
        off_cpu: bool = False,
        followed: Followed | None = None,
    ) -> None:
        """Begin without a part.

        Args:
            stacks: whether call stacks are wanted.
            use_cache: whether symbol tables are kept on disk.
            off_cpu: whether the switches of all threads are recorded.
            followed: the processes that count as the command and its descendants; None for none.
        """
        self._most_samples = bounds.most_samples
        self._naming = NamingOptions(use_cache=use_cache, debuginfod_s=0)
        self._wanted = ProfileRequest(stacks=stacks, hints=False, path=False)
        self._kept_names = KeptNames(bounds.most_addresses, bounds.most_symbols)
        self._sinks = Callbacks(kept_names=self._kept_names)
        self._joined = JoinedProfile()
        # The first part, as long as it is alone.
        self._only: Profile | None = None
        self._switches = LastSwitches() if off_cpu else None
        self._programs = LoadedPrograms()
        self._followed = followed
        self.fetch_names: FetchNames | None = None
        self.name_containers: Callable[[list[str]], Mapping[str, ContainerFacts]] | None = None
        self._control_groups: dict[int, bytes] = {}
        self._python = PythonNames(bounds.most_name_bytes)
        self.tasks = LiveTasks()

    def find_turns(self) -> None:
        """Give later parts the turns of their threads."""
        self._wanted = replace(self._wanted, turns=True)

    def add(
        self,
        data: bytes,
        info: RecordingInfo,
        seen: Mapping[int, Sequence[int]],
        running: Running | None = None,
    ) -> Profile:
        """Add a part; return its own profile.

        Args:
            data: whole records.
            info: the facts of a recording of these records, without its processes.
            seen: by pid, what the first look at the system saw of a process.
            running: the processes at its end, if exits may be missing.
        """
        events = decode([RecordBlock(memoryview(data))], info.events, [], clock_of_id(info))
        events = replace(events, control_groups=self._groups_with(events))
        events = self._python.carried(events, info.last_sample_ns, self.tasks.pids())
        pids, named = pids_of(events), set[int]()
        if self._switches is not None:
            named = self.tasks.pids()
        births = self.tasks.births(pids | named)
        carried = self._programs.carried(self.tasks.carried(events, pids, named))
        if self._switches is not None:
            carried = self._switches.carried(carried, switch_event(info))
        # The state at the start is not that of a reused number.
        described = {pid for pid in pids | named if pid not in births or not births[pid].start_ns}
        processes = {str(pid): seen[pid] for pid in described & seen.keys()}
        starts = {str(pid): one.start_ns for pid, one in births.items() if one.start_ns}
        known = {
            "processes": processes,
            "program_starts": starts,
            "containers": self._containers_of(events),
        }
        info = info._replace(extras=info.extras | known)
        part = profile_of_events(carried, info, self._naming, self._wanted, self._sinks)
        if self.fetch_names and (read := self.fetch_names(part, carried)):
            self._kept_names.forget_missing()
            info = info._replace(extras=info.extras | {"mapped_files": read})
            part = profile_of_events(carried, info, self._naming, self._wanted, self._sinks)
        self._kept_names.make_room()
        part = replace(part, processes=_with_births(part.processes, births))
        if self._followed is not None:
            self._followed.take_in(events)
            self._followed.mark(part.processes)
        self.tasks.take_in(events)
        if running:
            self.tasks.forget_ended(running)
        self._programs.take_in(events)
        if self._switches is not None:
            self._switches.take_in(events, self.tasks.tids())
        if self._only is None and not self._joined.parts:
            # Joining takes an eighth of a look, and a daemon looks once a window.
            self._only = part
            return part
        self._join(part)
        if len(self._joined) > self._most_samples or self._joined.parts > MOST_PARTS:
            self._forget()
        return part

    def records(self, events: Sequence[EventDescription]) -> bytes:
        """Return the first records of a recording of the next parts."""
        return self.tasks.records() + self._python.records(events)

    def profile(self) -> Profile:
        """Return the profile of all remembered parts, at least one."""
        return self._joined.profile() if self._only is None else self._only

    def read_new_files(self, most: int) -> int:
        """Bound the number of new files whose symbols a part reads, 0 for any number.

        Returns the number of files that had to wait since the last call.
        """
        kept = self._kept_names
        kept.most_new, count, kept.put_off = most, kept.put_off, 0
        return count

    def read_no_files_if(self, is_late: Callable[[], bool]) -> None:
        """Read no symbols of new files once this returns true."""
        self._kept_names.is_late = is_late

    def forget_names(self) -> None:
        """Free the memory of names; they are read from files again when needed."""
        kept = self._kept_names
        self._kept_names = KeptNames(kept.most_addresses, kept.most_symbols, is_late=kept.is_late)
        self._sinks = replace(self._sinks, kept_names=self._kept_names)

    def clear(self) -> None:
        """Forget all parts, but not the running processes."""
        self._joined, self._only = JoinedProfile(), None

    def _join(self, part: Profile) -> None:
        if self._only is not None:
            self._joined.add(self._only)
            self._only = None
        self._joined.add(part)

    def _groups_with(self, events: Events) -> dict[int, bytes]:
        """Return the known control groups; those that a part uses are forgotten last."""
        groups = self._control_groups
        groups |= events.control_groups
        if len(groups) > MOST_GROUPS:
            sampled = events.samples.control_group
            used = set() if sampled is None else set(distinct(sampled).tolist())
            for id_ in sorted(used & groups.keys()):
                groups[id_] = groups.pop(id_)
            for id_ in list(groups)[: len(groups) - MOST_GROUPS]:
                del groups[id_]
        return dict(groups)

    def _containers_of(self, events: Events) -> dict[str, list[str]]:
        """Return the containers of a part's samples, as docs/recording.md has them."""
        sampled = events.samples.control_group
        if sampled is None or self.name_containers is None:
            return {}
        paths = [events.control_groups.get(id_, b"") for id_ in distinct(sampled).tolist()]
        found = self.name_containers([path.decode(errors="replace") for path in paths])
        return {identity: list(facts) for identity, facts in found.items()}

    def _forget(self) -> None:
        times = np.sort(self._joined.profile().samples.time_ns)
        # Relative to the bound, not to what is there: one part may have many times as much.
        kept = int(self._most_samples * (1 - _FORGOTTEN_SHARE))
        begin_ns = self._joined.end_of_part(int(self._joined.parts * _FORGOTTEN_SHARE))
        if len(times) > kept:
            begin_ns = int(times[len(times) - kept])
        self._joined.forget_before(begin_ns)


def _with_births(processes: ProcessTable, births: Mapping[int, Birth]) -> ProcessTable:
    """Set when and how the programs of processes began that ran before the part."""
    birth, start_ns = processes.birth.copy(), processes.start_ns.copy()
    is_older = (birth == BIRTH_PREEXISTING) & (start_ns == 0)
    for row in np.flatnonzero(is_older).tolist():
        known = births.get(int(processes.pid[row]))
        if known:
            birth[row], start_ns[row] = known
    return replace(processes, birth=birth, start_ns=start_ns)
