"""Functions, files and lines by Go's own table."""

import numpy as np
import pytest

from builders.go_table import TEXT, VERSIONS, GoFunction, go_image
from prospect.elf.go_table import GO_1_20, read_go_table
from prospect.elf.image import ElfImage
from prospect.lines import finder
from prospect.lines.finder import go_frames

FILES = ("/src/main.go", "/src/shape.go")
FUNCTIONS = [
    GoFunction(
        "main.main",
        64,
        lines=((10, 16), (11, 16), (31, 8), (41, 24)),
        files=((0, 32), (1, 32)),
        # from 32 on main.area, in which main.side is inlined from 40 on; both are in shape.go
        calls=((-1, 32), (0, 8), (1, 24)),
        tree=(("main.area", 16), ("main.side", 35)),
    ),
    GoFunction("main.bare", 16),
]


def frames_at(version, *distances, functions=FUNCTIONS):
    image = ElfImage.parse(go_image(functions, version, files=FILES))
    table = read_go_table(image)
    found = go_frames(table, np.array([TEXT + one for one in distances], np.uint64))
    rows = [
        (
            found.names[name].decode() if name >= 0 else "",
            found.files[file] if file >= 0 else "",
            line,
        )
        for name, file, line in zip(
            found.name_index.tolist(), found.file_index.tolist(), found.line.tolist(), strict=True
        )
    ]
    return [rows[a:b] for a, b in zip(found.start[:-1], found.start[1:], strict=True)]


@pytest.mark.parametrize("version", VERSIONS)
def test_frames_go_from_the_function_to_the_innermost_inlined_one(version):
    main, area = ("main.main", FILES[0], 11), ("main.area", FILES[1], 31)
    assert frames_at(version, 50, 0, 36, 20, 70, 99, -1) == [
        [main, area, ("main.side", FILES[1], 41)],
        [("main.main", FILES[0], 10)],
        [main, area],
        [main],
        [("main.bare", "", 0)],
        [],
        [],
    ]


def test_pieces_of_many_addresses_are_put_together(monkeypatch):
    whole = frames_at(GO_1_20, *range(-3, 90))
    monkeypatch.setattr(finder, "_PIECE", 7)
    assert frames_at(GO_1_20, *range(-3, 90)) == whole


def test_inlined_calls_in_a_circle_end():
    looping = GoFunction(
        "main.loop", 32, lines=((5, 32),), files=((0, 32),), calls=((0, 32),), tree=(("main.x", 3),)
    )
    (frames,) = frames_at(GO_1_20, 7, functions=[looping])
    assert len(frames) == finder.DEEPEST
