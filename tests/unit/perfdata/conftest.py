"""What reading a file gives."""

import pytest

from prospect.perfdata.reader import open_recording


@pytest.fixture
def opened(tmp_path):
    def read(content):
        path = tmp_path / "perf.data"
        path.write_bytes(content)
        with open_recording(str(path)) as recording:
            blocks = list(recording.blocks())
            return recording.info, blocks, recording.damage

    return read
