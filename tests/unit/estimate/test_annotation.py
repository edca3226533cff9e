import numpy as np
import pytest

from builders.annotated import annotated_loop
from builders.profile_builder import clock_event
from prospect.estimate.annotate.annotation_view import annotation_view
from prospect.estimate.errors.design import sampling_design
from prospect.estimate.errors.error_bars import half_widths
from prospect.figures.function_choice import FunctionChoice
from prospect.profile.complete import complete
from prospect.profile.run_info import EventInfo
from prospect.records import replace


@pytest.fixture
def profile():
    return annotated_loop()


def only_event(profile, **options):
    (event,) = annotation_view(profile, FunctionChoice(**options)).events
    return event


def test_hits_are_those_of_each_instruction(profile):
    work = only_event(profile).functions[0]
    assert work.counted.tolist() == [0, 10, 60, 25, 4, 0]
    assert work.hits == 100
    assert work.stray_hits == 1
    assert work.seconds == pytest.approx(100 / 256)
    assert work.instruction_seconds.sum() == pytest.approx(99 / 256)
    assert work.instruction_share.tolist() == pytest.approx([0, 0.1, 0.6, 0.25, 0.04, 0], rel=1e-6)


def test_shares_of_functions_are_of_all_that_was_chosen(profile):
    event = only_event(profile)
    assert event.hits == 120
    assert [one.share for one in event.functions] == pytest.approx([100 / 120, 12 / 120, 8 / 120])
    assert only_event(profile, detail="4").hits == 180
    (fault,) = only_event(profile, detail="k").functions
    assert fault.share == 1.0


def test_a_function_without_code_says_why_and_keeps_its_hits(profile):
    compiled = only_event(profile).functions[1]
    assert compiled.hits == 12
    assert "JIT" in compiled.reason
    assert compiled.stray_hits == 0
    assert compiled.hottest == compiled.likely == -1


def test_the_instruction_before_the_hottest_is_likely_meant(profile):
    work = only_event(profile).functions[0]
    assert (work.hottest, work.likely) == (2, 1)


def test_of_a_jump_target_nothing_is_known_to_be_meant(profile):
    hits = profile.hits
    period, count = hits.period.copy(), hits.count.copy()
    count[0], period[0] = 500, int(500e9 / 256)
    work = only_event(replace(profile, hits=replace(hits, count=count, period=period))).functions[0]
    assert (work.hottest, work.likely) == (1, -1)


@pytest.mark.parametrize(
    ("event", "says"),
    [
        (clock_event(256.0), "a timer"),
        (EventInfo("cycles", 0.0, 1 / 256, 256.0), "late"),
        (EventInfo("cycles:u", 0.0, 1 / 256, 256.0), "late"),
        (EventInfo("cycles:Pu", 0.0, 1 / 256, 256.0), ""),
        (EventInfo("instructions:pp", 0.0, 0.0, 0.0), ""),
    ],
)
def test_which_instruction_is_meant_depends_on_the_event(profile, event, says):
    found = only_event(replace(profile, run=replace(profile.run, events=(event,))))
    assert says in found.skid
    assert bool(says) == bool(found.skid)
    work = found.functions[0]
    assert work.likely == (1 if says else 2)


def test_error_bars_are_those_of_the_chosen_hits_only(profile):
    work = only_event(profile).functions[0]
    design = sampling_design(complete(profile), 0)
    function = np.array([0, 0, 0, 0, 0, -1, -1, -1], np.int32)
    assert work.half_width_s == half_widths(design, function, 1)[0] > 0
    instruction = np.array([1, 2, 3, 4, -1, -1, -1, -1], np.int32)
    assert work.instruction_half_width_s.tolist() == half_widths(design, instruction, 6).tolist()


def test_an_event_without_time_has_no_error_bars(profile):
    event = EventInfo("instructions", 0.0, 0.0, 0.0)
    work = only_event(replace(profile, run=replace(profile.run, events=(event,)))).functions[0]
    assert work.half_width_s is None
    assert work.instruction_half_width_s is None


def test_without_code_there_is_no_annotation(profile):
    with pytest.raises(ValueError, match="without code"):
        annotation_view(replace(profile, code=None), FunctionChoice())
