"""What a report on very many mappings takes: memory in proportion to them."""

import re
import subprocess
import sys

import pytest

from builders.many_mappings import mapped_over

COUNT = 200_000
# Its own peak: ru_maxrss has that of the process which started it as well.
REPORT = """
import sys
from prospect.cli.main import main
status = main(sys.argv[1:])
print(open("/proc/self/status").read())
sys.exit(status)
"""


@pytest.mark.parametrize("width", [1, 300])
def test_a_report_on_very_many_mappings_takes_memory_in_proportion(tmp_path, width):
    recording, report = tmp_path / "perf.data", tmp_path / "report.txt"
    recording.write_bytes(mapped_over(COUNT, width))
    words = ["report", "-V4", "--no-cache", "-f", str(report), str(recording)]
    ran = subprocess.run(
        [sys.executable, "-c", REPORT, *words], stdout=subprocess.PIPE, check=True, text=True
    )
    text = report.read_text()
    assert ["Num", "maps:", str(COUNT)] in [line.split()[:3] for line in text.splitlines()]
    assert "/none/library.so" in text
    # 100 MB are Python and numpy; 10 GB were taken for 1.4 million, which is 7 kB each.
    peak_kb = int(re.search(r"VmHWM:\s+(\d+) kB", ran.stdout)[1])
    assert peak_kb < 400_000, f"{peak_kb} kB"
