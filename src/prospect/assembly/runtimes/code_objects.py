"""Functions of runtimes that a recording has → names and lines.

Whatever a recording holds, names are printable text of bounded length, and lines are bounded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import runtime_frames as wire
from prospect.assembly.runtimes.described import Described
from prospect.assembly.runtimes.php_functions import describe_php
from prospect.assembly.runtimes.python_functions import describe_python
from prospect.assembly.runtimes.ruby_functions import describe_ruby
from prospect.assembly.runtimes.v8_functions import describe_v8
from prospect.columns.grouping import alike
from prospect.events.runtime_records import CodeKey
from prospect.profile.model import (
    KIND_JAVASCRIPT,
    KIND_NAMES,
    KIND_PHP,
    KIND_PYTHON,
    KIND_RUBY,
)
from prospect.symbols.runtime_code import MOST_LINES, RuntimeCode, RuntimeFunction, standing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.events.runtime_records import CodeText, RuntimeImage, RuntimeRecords

# Functions and lines that are kept from one part of a session to the next: 5,000 of usual size.
_MOST_BYTES = 12 << 20
_OBJECT_BYTES = 1 << 10
# How a runtime's functions are described, and of which kind their source files are.
_Describe = Callable[["CodeText", "RuntimeImage"], Described]
_RUNTIMES: dict[int, tuple[_Describe, int]] = {
    wire.CPYTHON: (describe_python, KIND_PYTHON),
    wire.RUBY: (describe_ruby, KIND_RUBY),
    wire.PHP: (describe_php, KIND_PHP),
    wire.V8: (describe_v8, KIND_JAVASCRIPT),
}


def place_frames(records: RuntimeRecords) -> tuple[RuntimeCode, NDArray[np.uint64]]:
    """Give each frame an address in the code of runtimes of the recording.

    Args:
        records: stacks and names.

    Returns:
        The code, and u64[f] the address of each of the records' frames.
    """
    image_of = np.repeat(records.image, np.diff(records.start))
    columns = (image_of, records.code, records.signature, records.last)
    found = alike(columns)
    known: dict[CodeKey, Described] = {}
    functions: dict[RuntimeFunction, int] = {}
    last_line: list[int] = []
    places: list[tuple[int, int]] = []
    for *place, last in zip(*(column.take(found.row).tolist() for column in columns), strict=True):
        key = CodeKey(*place)
        if key not in known:
            text, image = records.texts.get(key), records.images.get(key.image)
            function, lines = known[key] = _DESCRIBED.of(text, image)
            number = functions.setdefault(function, len(functions))
            if number == len(last_line):
                last_line.append(function.first)
            # How far it reaches is the same whichever of its lines were met.
            reach = min(lines.last, function.first + MOST_LINES - 1) if lines else 0
            last_line[number] = max(last_line[number], reach)
        function, lines = known[key]
        line = lines.at(last) if lines else 0
        line = line if function.first <= line < function.first + MOST_LINES else 0
        number = functions[function]
        places.append((number, line))
    order, start = standing(functions)
    rank = np.empty(len(order), np.int64)
    rank[[functions[function] for function in order]] = np.arange(len(order))
    sizes = [last_line[functions[one]] - one.first + 2 for one in order]
    numbers = np.array([one for one, _ in places], np.int64)
    of_place = np.array([one for _, one in places], np.int64)
    first = np.array([function.first for function in functions], np.int64).take(numbers)
    inside = np.where(of_place > 0, of_place - first + 1, 0).astype(np.uint64)
    address = start.take(rank.take(numbers)) + inside
    end = start + np.array(sizes, np.uint64)
    return RuntimeCode(order, start, end), address.take(found.place)


class _KeptFunctions:
    """The functions that were described: each part of a session asks for the same."""

    def __init__(self) -> None:
        self._known: dict[tuple[CodeText | None, RuntimeImage | None], Described] = {}
        self._bytes = 0

    def of(self, text: CodeText | None, image: RuntimeImage | None) -> Described:
        """Return a function and its lines, as far as the recording has them."""
        runtime = image.runtime if image else wire.CPYTHON
        describe, kind = _RUNTIMES.get(runtime, (None, KIND_PYTHON))
        if text is None or text.name is None or image is None or describe is None:
            return Described(_unread(kind))
        # Processes of one build describe their functions alike.
        build = image._replace(text_begin=0, text_end=0, loop_begin=0, loop_end=0, user=0)
        found = self._known.get((text, build))
        if found is None:
            found = describe(text, build)
            found = found._replace(function=found.function._replace(kind=kind))
            self._known[text, build] = found
            self._bytes += _size(text, found)
            while self._bytes > _MOST_BYTES:
                oldest = next(iter(self._known))
                self._bytes -= _size(oldest[0], self._known.pop(oldest))
        return found


def _unread(kind: int) -> RuntimeFunction:
    return RuntimeFunction(f"[{KIND_NAMES[kind]}]", "[not read]", 0, kind)


def _size(text: CodeText | None, found: Described) -> int:
    """Return about how many bytes a function takes here."""
    tables = (text.lines, text.positions) if text else ()
    size = sum(len(table) for table in tables if table)
    return _OBJECT_BYTES + size + (found.lines.size_bytes if found.lines else 0)


_DESCRIBED = _KeptFunctions()
