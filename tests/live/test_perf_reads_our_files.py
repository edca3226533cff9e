"""``perf`` reads what RecordingWriter writes, and what tests/builders/perfdata.py builds."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from builders import perfdata as build
from builders.perfdata_features import feature_event_desc, feature_string
from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr, EventDescription
from prospect.abi.recorded_facts import BuildId, RecordingInfo
from prospect.perfdata.writer import RecordingWriter

pytestmark = [
    pytest.mark.live,
    pytest.mark.parallel,
    pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed"),
]

FLAGS = (
    abi.FLAG_FREQ | abi.FLAG_SAMPLE_ID_ALL | abi.FLAG_MMAP | abi.FLAG_MMAP2 | abi.FLAG_COMM
    | abi.FLAG_TASK | abi.FLAG_USE_CLOCKID
)  # fmt: skip
EVENT = EventDescription(
    EventAttr(sample_type=build.USUAL, sample_period=1000, flags=FLAGS, clockid=1, read_format=4),
    ids=(11, 12),
    name="cpu-clock",
)
INFO = RecordingInfo(
    hostname="somewhere",
    os_release="6.18.0-test",
    arch="x86_64",
    cpus_online=2,
    cpus_available=4,
    cpu_description="A CPU",
    cpuid="GenuineIntel,6,85,7",
    total_memory_kib=1234,
    command_line=("prospect", "record", "true"),
    perf_version="prospect-0.1.0",
    build_ids=(
        BuildId(b"/bin/hello", bytes(range(20)), -1, abi.PERF_RECORD_MISC_USER),
        BuildId(b"/lib/other.so", bytes(range(20, 40)), -1, abi.PERF_RECORD_MISC_USER),
    ),
    first_sample_ns=2_000_000,
    last_sample_ns=11_000_000,
    extras={"answer": 42},
)
KERNEL = 0xFFFFFFFF81000000
# Expected of `perf script`: name, pid/tid, CPU, time in µs, period, event, address.
FIELDS = "comm,pid,tid,cpu,time,period,event,ip"


def records(order="<"):
    built = build.RecordBuilder(order=order)
    return [
        built.mmap(
            -1, 0, KERNEL, 0x1000000, "[kernel.kallsyms]_text",
            pgoff=KERNEL, misc=build.MISC_KERNEL, id=11,
        ),
        built.comm(42, 42, "hello", is_exec=True, time=1_000_000, id=11),
        built.mmap2(42, 42, 0x400000, 0x1000, "/bin/hello", inode=5, time=1_001_000, id=11),
        *(
            built.sample(
                ip=0x400100 + i, pid=42, tid=42 + i % 3, time=2_000_000 + i * 1_000_000,
                id=11 + i % 2, cpu=i % 2, period=1000 + i,
            )
            for i in range(10)
        ),
        built.exit(42, 1, time=20_000_000, id=11),
    ]  # fmt: skip


def expected():
    return [
        ["hello" if i % 3 == 0 else ":" + str(42 + i % 3), f"42/{42 + i % 3}", f"[00{i % 2}]",
         f"0.{2000 + i * 1000:06d}:", str(1000 + i), "cpu-clock:", f"{0x400100 + i:x}"]
        for i in range(10)
    ]  # fmt: skip


def perf(*arguments):
    done = subprocess.run(
        ["perf", *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout, done.stderr


@pytest.fixture(params=["ids known at the start", "ids and events came later"])
def path(request, tmp_path):
    path = tmp_path / "perf.data"
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    late = request.param == "ids and events came later"
    writer = RecordingWriter(fd, [EVENT._replace(ids=(11,)) if late else EVENT])
    os.write(fd, b"".join(records()))
    dummy = EventDescription(
        EVENT.attr._replace(config=abi.PERF_COUNT_SW_DUMMY), (21, 22), "dummy:u"
    )
    writer.finish(INFO, [EVENT, dummy] if late else [EVENT])
    os.close(fd)
    return str(path)


def test_script_prints_the_samples_that_were_put_in(path):
    out, err = perf("script", "-i", path, "-F", FIELDS)
    assert err == ""
    assert [line.split() for line in out.splitlines()] == expected()


def test_report_counts_them(path):
    out, err = perf("report", "--stdio", "-i", path, "-s", "comm,dso", "--no-children", "-n")
    assert err == ""
    rows = [line.split() for line in out.splitlines() if line.strip() and not line.startswith("#")]
    assert sum(int(row[1]) for row in rows) == 10
    assert "Samples: 10  of event 'cpu-clock'" in out


def test_evlist_shows_the_event(path):
    out, err = perf("evlist", "-v", "-i", path)
    assert err == ""
    assert out.startswith("cpu-clock: type: 1")
    assert "IP|TID|TIME|CPU|PERIOD|IDENTIFIER" in out


def test_the_header_shows_the_facts(path):
    out, err = perf("report", "--header-only", "-i", path)
    assert err == ""
    for line in (
        "hostname : somewhere",
        "os release : 6.18.0-test",
        "perf version : prospect-0.1.0",
        "arch : x86_64",
        "nrcpus online : 2",
        "nrcpus avail : 4",
        "cpudesc : A CPU",
        "cpuid : GenuineIntel,6,85,7",
        "total memory : 1234 kB",
        "cmdline : prospect record true",
        "time of first sample : 0.002000",
        "time of last sample : 0.011000",
        "clockid: monotonic (1)",
    ):
        assert f"# {line}" in out


def test_build_ids_are_listed(path):
    out, err = perf("buildid-list", "-i", path)
    assert err == ""
    assert out.split() == [
        bytes(range(20)).hex(), "/bin/hello", bytes(range(20, 40)).hex(), "/lib/other.so",
    ]  # fmt: skip


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("form", ["file", "compressed"])
def test_the_builder_builds_what_perf_understands(tmp_path, order, form):
    features = {
        3: feature_string("host", order),
        12: feature_event_desc([EVENT], order, attr_size=128),
    }
    builder = build.FileBuilder([EVENT], records(order), features, order, attr_size=128)
    path = tmp_path / "perf.data"
    path.write_bytes(getattr(builder, form)())
    out, err = perf("script", "-i", str(path), "-F", FIELDS)
    assert err == ""
    assert [line.split() for line in out.splitlines()] == expected()
