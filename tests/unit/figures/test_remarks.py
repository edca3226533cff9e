"""What a report says before its figures is about the processes that it shows."""

from __future__ import annotations

from builders.profile_builder import ProfileBuilder, run_info
from prospect.capture.machine.surroundings import UNREADABLE_MAPPINGS
from prospect.figures.remarks import limits_of

INIT = f"{UNREADABLE_MAPPINGS}1 (init): code that they mapped before has no names."
BOTH = f"{UNREADABLE_MAPPINGS}1 (init), 77 (work): code that they mapped before has no names."


def limits(sentence, shown):
    build = ProfileBuilder(run_info(command=("work",), limits=(sentence, "Another.")))
    build.process("init", 1)
    build.process("work", 77, is_command=True)
    return limits_of(build.build(), shown)


def test_mappings_of_processes_that_are_not_shown_are_not_spoken_of():
    assert limits(INIT, "3") == ("Another.",)
    assert limits(BOTH, "3") == (BOTH, "Another.")


def test_where_all_are_shown_they_are():
    assert limits(INIT, "4") == (INIT, "Another.")
