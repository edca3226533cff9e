"""What an archive keeps of a Go image gives the same rules for unwinding."""

import numpy as np
import pytest

from builders.go_table import VERSIONS, GoFunction, go_image
from prospect.archived.archive_format import Image
from prospect.archived.symbolizers import kept_pieces, restored_image
from prospect.elf.frame_rows import read_frame_rows
from prospect.elf.image import ElfImage
from prospect.profile.model import KIND_ELF
from prospect.symbols.objects import ObjectKey

KEY = ObjectKey(KIND_ELF, b"/bin/program")
FUNCTIONS = [
    GoFunction("main.main", 4096, frame=((0, 8), (40, 4088))),
    GoFunction("runtime.goexit", 64),
]


@pytest.mark.parametrize("version", VERSIONS)
def test_rules_are_the_same_from_what_an_archive_keeps(version):
    image = ElfImage.parse(go_image(FUNCTIONS, version, stated_text=0))
    pieces = kept_pieces(image, whole=False, call_frames=True)
    assert sum(len(content) for _, content in pieces) < len(image.data) / 2
    found = restored_image(KEY, 1, Image(len(image.data), pieces))
    kept, rows = read_frame_rows(found.image), read_frame_rows(image)
    assert np.array_equal(kept.start, rows.start)
    assert np.array_equal(kept.rule, rows.rule)
    assert len(rows) > 2
