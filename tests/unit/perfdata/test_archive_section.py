"""A recording with one more section is the same recording to everybody else."""

import pytest

from builders.perfdata import USUAL, FileBuilder, RecordBuilder
from builders.perfdata_features import feature_string
from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr, EventDescription
from prospect.errors import RecordingError
from prospect.perfdata.archive_section import check_archivable, with_archive
from prospect.perfdata.reader import open_recording

FLAGS = abi.FLAG_SAMPLE_ID_ALL | abi.FLAG_FREQ
CLOCK = EventDescription(EventAttr(sample_type=USUAL, flags=FLAGS), (1, 2), "cpu-clock:ppp")
RECORDS = RecordBuilder(USUAL)
SAMPLES = [RECORDS.sample(ip=i, pid=5, tid=5, time=i, id=1) for i in range(50)]
FEATURES = {3: feature_string("host"), 4: feature_string("6.1"), 6: feature_string("x86_64")}


def archived(file: bytes, content: bytes = b"answers") -> bytes:
    view = memoryview(file)
    return b"".join(with_archive(view, check_archivable(view), content))


def told(path, file: bytes):
    path.write_bytes(file)
    with open_recording(str(path)) as recording:
        data = b"".join(bytes(block.data) for block in recording.blocks())
        return recording.info._replace(recorded_at=0.0), data, recording.damage


@pytest.mark.parametrize("features", [FEATURES, {3: FEATURES[3]}], ids=["three", "one"])
def test_all_that_was_there_is_there_and_the_archive_too(tmp_path, features):
    file = FileBuilder([CLOCK], SAMPLES, features).file()
    before, data, _ = told(tmp_path / "perf.data", file)
    after, same_data, damage = told(tmp_path / "perf.data", archived(file))
    assert bytes(after.archive) == b"answers"
    assert after._replace(archive=b"") == before
    assert after.hostname == "host"
    assert same_data == data
    assert damage == []


def test_our_own_section_keeps_its_place_behind(tmp_path):
    own = b"PROSPECT" + (1).to_bytes(4, "little") + (9).to_bytes(4, "little") + b'{"cpus":3'
    own = own[:12] + (10).to_bytes(4, "little") + b'{"cpus":3}'
    file = FileBuilder([CLOCK], SAMPLES, FEATURES | {255: own}).file()
    after, _, damage = told(tmp_path / "perf.data", archived(file))
    assert damage == []
    assert after.extras == {"cpus": 3}
    assert bytes(after.archive) == b"answers"


def refused(file: bytes) -> str:
    with pytest.raises(RecordingError) as caught:
        archived(file)
    return str(caught.value)


def test_what_cannot_be_archived_is_refused():
    whole = FileBuilder([CLOCK], SAMPLES, FEATURES)
    assert "already" in refused(archived(whole.file()))
    assert "pipe" in refused(whole.pipe())
    assert "stopped" in refused(FileBuilder([CLOCK], SAMPLES, FEATURES, data_size=0).file())
    big = FileBuilder([CLOCK], SAMPLES, {3: feature_string("host", ">")}, order=">")
    assert "big-endian" in refused(big.file())
    assert "cut" in refused(whole.file()[:600])
    assert "beyond the end" in refused(whole.file()[: -len(b"".join(FEATURES.values())) - 8])
    assert "not a perf.data" in refused(b"no recording at all")
