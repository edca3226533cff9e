"""From records to report no sample is lost, doubled or moved between figures that must agree."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import perfdata as build
from builders.examples import examples
from builders.sums import check_sums
from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr, EventDescription
from prospect.analysis.pipeline import build_profile
from prospect.api.recorded_profile import Profile
from prospect.errors import RecordingError
from prospect.options import NamingOptions
from prospect.perfdata.reader import open_recording

FLAGS = (
    abi.FLAG_SAMPLE_ID_ALL | abi.FLAG_MMAP | abi.FLAG_MMAP2 | abi.FLAG_COMM | abi.FLAG_TASK
)  # fmt: skip
CLOCK = EventDescription(
    EventAttr(
        type=abi.PERF_TYPE_SOFTWARE,
        config=abi.PERF_COUNT_SW_CPU_CLOCK,
        sample_type=build.USUAL | abi.PERF_SAMPLE_CALLCHAIN,
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
MODES = st.sampled_from([0, 1, 1, 2, 3, 4, 5])
CONTEXT_KERNEL, CONTEXT_USER = 2**64 - 128, 2**64 - 512
TEXT = 0xFFFFFFFF81000000
FUNCTIONS = (
    *("_stext", "do_syscall_64", "__x64_sys_read", "ksys_write", "asm_exc_page_fault", "vfs_read"),
    *("asm_sysvec_apic_timer_interrupt", "handle_softirqs", "net_rx_action", "ret_from_fork_asm"),
    *("kthread", "do_idle", "__handle_irq_event_percpu", "vm_interrupt", "_etext"),
)
KERNEL_MAPPING = build.RecordBuilder().mmap(
    -1, 0, TEXT, 0x1000, b"[kernel.kallsyms]_stext", pgoff=TEXT, misc=1
)
SYSTEM_MAP = "".join(f"{TEXT + 0x100 * place:x} T {name}\n" for place, name in enumerate(FUNCTIONS))
WORDS = st.one_of(
    st.integers(0, len(FUNCTIONS)).map(lambda place: TEXT + 0x100 * place + 8),
    st.sampled_from([0, 0x400000, CONTEXT_KERNEL, CONTEXT_USER, 2**64 - 1]),
)
CHAINS = st.one_of(
    st.just([]),
    st.lists(WORDS, max_size=6),
    st.lists(WORDS, max_size=6).map(lambda words: [CONTEXT_KERNEL, *words]),
)


@st.composite
def records(draw):
    """Records in any order, most of them contradicting each other."""
    of, of_clock = build.RecordBuilder(), build.RecordBuilder(CLOCK.attr.sample_type)
    kinds = draw(st.lists(st.sampled_from(KINDS), max_size=40))
    made = [KERNEL_MAPPING] if draw(st.booleans()) else []
    for kind in kinds:
        pid, other, time = draw(PIDS), draw(PIDS), draw(TIMES)
        if kind == "sample":
            event, period = draw(st.sampled_from([11, 12])), draw(st.integers(0, 10**7))
            chain = draw(CHAINS) if event == 11 else []
            ip = chain[1] if len(chain) > 1 else draw(ADDRESSES)
            is_kernel = chain[:1] == [CONTEXT_KERNEL] and draw(st.booleans())
            made.append(
                (of_clock if event == 11 else of).sample(
                    ip=ip, pid=pid, tid=other, time=time, id=event,
                    period=period, misc=1 if is_kernel else draw(MODES), chain=chain,
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
        self.size_bytes = recording.size_bytes
        self.unread_bytes = recording.unread_bytes


@st.composite
def chained_records(draw):
    """Kernel samples of a few processes, most of which have a chain of some sense."""
    of_clock = build.RecordBuilder(CLOCK.attr.sample_type)
    of = build.RecordBuilder()
    made = [KERNEL_MAPPING, of.fork(3, 2, time=1), of.comm(3, 3, b"ksoftirqd/0", time=1)]
    return made + [
        of_clock.sample(
            ip=chain[1], pid=pid, tid=pid, time=time, id=11, period=10**6, misc=mode, chain=chain
        )
        for time, (pid, mode, chain) in enumerate(
            draw(
                st.lists(
                    st.tuples(
                        st.sampled_from([-1, 0, 3, 7, 8]),
                        st.sampled_from([1, 1, 1, 2]),
                        st.lists(WORDS, min_size=1, max_size=5).map(
                            lambda words: [CONTEXT_KERNEL, *words]
                        ),
                    ),
                    min_size=20,
                    max_size=40,
                )
            ),
            start=2,
        )
    ]


@settings(max_examples=examples(60))
@given(st.one_of(records(), chained_records()), st.sampled_from([None, 1, 7, 9]))
def test_whatever_is_recorded_adds_up(tmp_path_factory, made, command_pid):
    path = tmp_path_factory.getbasetemp() / "conserved"
    listing = path.with_name("System.map")
    listing.write_text(SYSTEM_MAP)
    path.write_bytes(build.FileBuilder(events=(CLOCK, FAULTS), records=made).file())
    with open_recording(str(path)) as recording:
        source = FromElsewhere(recording, command_pid)
        options = NamingOptions(use_cache=False, system_map=str(listing))
        if not made:  # a file without a record is one whose recorder was stopped
            with pytest.raises(RecordingError, match="no sample could be read"):
                build_profile(source, options)
            return
        profile = build_profile(source, options)
    samples = sum(record[:4] == (9).to_bytes(4, "little") for record in made)
    assert int(profile.hits.count.sum()) == samples
    check_sums(Profile(**vars(profile)))
