"""The samples and waits of a profile that are on the critical path of its command."""

import io

import pytest

from builders.sources import CLOCK
from builders.switches import SWITCH, switched_profile
from prospect.cli.commands import REPORT
from prospect.cli.option_parser import parse
from prospect.errors import UsageError
from prospect.figures.critical_path import on_critical_path
from prospect.profile.model import PATH_BLOCKED, PATH_WAITED
from prospect.render.registry import make_renderer


@pytest.fixture(scope="module")
def profile():
    # Thread 5 ran, was blocked, ran, and was preempted by its own thread 6.
    return switched_profile(CLOCK, SWITCH, stacks=True, extras={"command_pid": 5})


def test_what_is_not_on_the_path_is_left_out(profile):
    found = on_critical_path(profile)
    path = profile.wall
    lengths = {
        state: int(path.length_ns[path.state == state].sum())
        for state in (PATH_BLOCKED, PATH_WAITED)
    }
    # The wait from before the recording has no stack.
    assert int(found.waits.length_ns[~found.waits.is_runnable].sum()) == 20_000
    assert lengths[PATH_BLOCKED] == 21_000
    assert int(found.waits.length_ns[found.waits.is_runnable].sum()) == lengths[PATH_WAITED]
    assert found.samples.tid.tolist() == [5]
    assert int(found.hits.count.sum()) == 1


def test_the_option_chooses_them_in_formats_of_call_stacks(profile):
    settings = parse(REPORT, ["--format", "folded", "--critical-path", "x.data"])[0]
    assert settings.critical_path
    out = io.BytesIO()
    make_renderer("folded", critical_path=settings.critical_path).render(profile, out)
    # All are of one stack: the sample's 10 ms, and waits of 20 and 21 microseconds.
    microseconds = [int(line.rsplit(b" ", 1)[1]) for line in out.getvalue().splitlines()]
    assert microseconds == [10_041]


@pytest.mark.parametrize("name", ["text", "json", "html"])
def test_other_formats_refuse_it(name):
    with pytest.raises(UsageError, match="--critical-path is for files of call stacks"):
        make_renderer(name, critical_path=True)


def test_a_profile_without_a_path_says_what_to_record():
    with pytest.raises(UsageError, match="record a command with --off-cpu or --wall"):
        on_critical_path(switched_profile(CLOCK, SWITCH))
