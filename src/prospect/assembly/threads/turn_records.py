"""Records of the scheduler and the waits of a profile → its turns, with the names of threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.assembly.threads.wall_path import scheduler_records, with_pids
from prospect.figures.find_turns import find_turns
from prospect.profile.complete import complete
from prospect.profile.model import TURN_UNCLEAR, TURN_WHOLE, TurnTable
from prospect.records import Record, replace
from prospect.wall.path import pieces_at
from prospect.wall.turns import Turns, turn_pieces

if TYPE_CHECKING:
    from prospect.abi.recorded_facts import RecordingInfo
    from prospect.events import record_columns
    from prospect.events.record_columns import Events
    from prospect.figures.find_turns import FoundTurns
    from prospect.profile.complete import CompleteProfile
    from prospect.profile.model import Profile
    from prospect.spaces.process_history import ProcessHistory
    from prospect.wall.schedule_records import SchedulerRecords


class TurnSource(Record):
    """What turns are made of, kept until waits have stacks and these have names."""

    records: SchedulerRecords

    def added_to(self, profile: Profile, history: ProcessHistory) -> Profile:
        """Return a profile with the turns of its threads, if any of them waits for work.

        Args:
            profile: with its waits and the times of its threads.
            history: of the recording.
        """
        whole = complete(profile)
        found = find_turns(whole)
        if found is None:
            return profile
        return replace(profile, turns=self._table(whole, found, history, len(profile.processes)))

    def _table(
        self,
        profile: CompleteProfile,
        found: FoundTurns,
        history: ProcessHistory,
        processes: int,
    ) -> TurnTable:
        whole = np.flatnonzero(found.state == TURN_WHOLE)
        tid, begin_ns = found.tid.take(whole), found.begin_ns.take(whole)
        walked = turn_pieces(self.records, Turns(tid, begin_ns, found.end_ns.take(whole)))
        # A wait that is in no table may have been an idle one.
        is_clear = walked.is_followed & (walked.gaps == found.waits.take(whole))
        state = found.state.copy()
        state[whole[~is_clear]] = TURN_UNCLEAR
        kept = np.flatnonzero(is_clear.take(walked.turn))
        turn, pieces = walked.turn.take(kept), pieces_at(walked.pieces, kept)
        is_other = pieces.tid != tid.take(turn)
        during = np.full(len(kept), -1, np.int32)
        during[is_other] = found.waiting.at(
            profile, tid.take(turn[is_other]), pieces.start_ns[is_other]
        )
        process = found.process_index
        return TurnTable(
            tid=found.tid,
            process_index=np.where(process < processes, process, np.int32(-1)),
            begin_ns=found.begin_ns,
            length_ns=(found.end_ns - found.begin_ns).view(np.int64),
            state=state,
            is_loop=found.is_loop,
            kind_index=found.kind_index,
            kinds=found.kinds,
            turn_of_piece=whole.take(turn).astype(np.int32),
            pieces=with_pids(pieces, self.records.processes).described(history),
            during_index=during,
            during=list(found.waiting.names),
        )


def turn_source(
    events: Events, switches: record_columns.Switches | None, info: RecordingInfo
) -> TurnSource | None:
    """Return what turns are made of; None without switches, which the other arguments are of."""
    return TurnSource(scheduler_records(events, switches, info)) if switches is not None else None
