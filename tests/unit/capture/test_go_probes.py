"""A probe in a stripped Go program is placed by Go's own function table."""

import pytest

from builders.go_table import TEXT, GoFunction, go_image
from prospect.capture.events.probe_places import function_offset
from prospect.elf.image import ElfImage
from prospect.errors import UsageError


def test_a_function_of_gos_table_is_found(tmp_path):
    content = go_image([GoFunction("main.main", 32), GoFunction("main.work", 64)])
    path = tmp_path / "program"
    path.write_bytes(content)
    image = ElfImage.parse(content)
    offset = function_offset(str(path), "main.work")
    assert content[offset : offset + 64] == b"\x90" * 64
    begin = int(image.sections["offset"][image.find_section(b".text")])
    assert offset == begin + 32
    assert image.sections["addr"][image.find_section(b".text")] == TEXT
    with pytest.raises(UsageError, match="has no function"):
        function_offset(str(path), "main.other")
