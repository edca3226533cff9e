"""What llvm-symbolizer says of addresses: the oracle for source lines and inlined functions."""

from __future__ import annotations

import json
import posixpath
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def llvm_frames(path: str, addresses: Iterable[int]) -> list[list[tuple[str, str, int]]]:
    """Return (function, file, line) of each frame, the outermost first, as we have them.

    A compiler gives code that is from no line the line 0. Answers with such frames alone are left
    out: of code without debug information, the symbol table may know the file.
    """
    options = ["--inlines", "--functions=linkage", "--no-demangle", "--output-style=JSON"]
    ran = subprocess.run(
        ["llvm-symbolizer", f"--obj={path}", *options],
        input="".join(f"0x{address:x}\n" for address in addresses),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    answers = [json.loads(line) for line in ran.stdout.splitlines()]
    flat = [one[0] if isinstance(one, list) else one for one in answers]
    return [
        [
            (one["FunctionName"], posixpath.normpath(one["FileName"]), one["Line"])
            for one in reversed(answer["Symbol"])
            if any(frame["Line"] for frame in answer["Symbol"])
        ]
        for answer in flat
    ]
