"""From records to report no sample is lost, doubled or moved between figures that must agree."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from builders import perfdata as build
from builders.sums import check_sums
from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr
from prospect.abi.block import EventDescription
from prospect.api import Profile
from prospect.perfdata.reader import open_recording
from prospect.pipeline import PipelineOptions, build_profile

FLAGS = (
    abi.FLAG_SAMPLE_ID_ALL | abi.FLAG_MMAP | abi.FLAG_MMAP2 | abi.FLAG_COMM | abi.FLAG_TASK
)  # fmt: skip
CLOCK = EventDescription(
    EventAttr(
        type=abi.PERF_TYPE_SOFTWARE,
        config=abi.PERF_COUNT_SW_CPU_CLOCK,
        sample_type=build.USUAL,
        sample_period=1_000_000,
        flags=FLAGS,
    ),
    ids=(11,),
    name="cpu-clock",
)
FAULTS = EventDescription(
    EventAttr(
        type=abi.PERF_TYPE_SOFTWARE,
        config=2,  # PERF_COUNT_SW_PAGE_FAULTS
        sample_type=build.USUAL,
        sample_period=1,
        flags=FLAGS,
    ),
    ids=(12,),
    name="page-faults",
)
PIDS = st.sampled_from([-1, 0, 1, 2, 7, 8, 9])
ADDRESSES = st.sampled_from([0, 0x1000, 0x1FFF, 0x5000, 0x7FFF_F000_0000, 2**64 - 4096])
TIMES = st.integers(0, 50)
NAMES = st.sampled_from([b"", b"a", b"/no/such", b"//anon", b"[vdso]", b"/x (deleted)", b"\xff\n"])
KINDS = ["sample", "sample", "sample", "mmap", "comm", "fork", "exit"]
MODES = st.sampled_from([0, 1, 2, 3, 4, 5])


@st.composite
def records(draw):
    """Records in any order, most of them contradicting each other."""
    of = build.RecordBuilder()
    kinds = draw(st.lists(st.sampled_from(KINDS), max_size=40))
    made = []
    for kind in kinds:
        pid, other, time = draw(PIDS), draw(PIDS), draw(TIMES)
        if kind == "sample":
            event, period = draw(st.sampled_from([11, 12])), draw(st.integers(0, 10**7))
            made.append(
                of.sample(
                    ip=draw(ADDRESSES), pid=pid, tid=other, time=time, id=event,
                    period=period, misc=draw(MODES),
                )
            )  # fmt: skip
        elif kind == "mmap":
            start, length = draw(ADDRESSES), draw(st.sampled_from([0, 1, 0x1000, 0x10000]))
            made.append(of.mmap2(pid, pid, start, length, draw(NAMES), time=time))
        elif kind == "comm":
            made.append(of.comm(pid, pid, draw(NAMES), is_exec=draw(st.booleans()), time=time))
        else:
            made.append(getattr(of, kind)(pid, other, time=time))
    return made


class FromElsewhere:
    """A recording of another machine, by Prospect: no file of this one is asked for names."""

    def __init__(self, recording, command_pid):
        self.info = recording.info._replace(
            hostname="elsewhere", extras={"command_pid": command_pid, "scope": "system"}
        )
        self.damage = recording.damage
        self.blocks = recording.blocks


@settings(max_examples=60, deadline=None)
@given(records(), st.sampled_from([None, 1, 7, 9]))
def test_whatever_is_recorded_adds_up(tmp_path_factory, made, command_pid):
    path = tmp_path_factory.getbasetemp() / "conserved"
    path.write_bytes(build.FileBuilder(events=(CLOCK, FAULTS), records=made).file())
    with open_recording(str(path)) as recording:
        source = FromElsewhere(recording, command_pid)
        profile = build_profile(source, PipelineOptions(use_cache=False))
    samples = sum(record[:4] == (9).to_bytes(4, "little") for record in made)
    assert int(profile.hits.count.sum()) == samples
    check_sums(Profile(**vars(profile)))
