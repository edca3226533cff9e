"""docs/map.md: the words of each row are in the files that the row names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "src" / "prospect"
PAGE = (ROOT / "docs" / "map.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and "`" in line
]
# A word that every file has says nothing.
LINKS = frozenset(("of", "on", "in", "to", "a", "the", "and", "that", "its", "from", "by", "for"))


def files_of(row: list[str]) -> list[Path]:
    """Return the files that a row names: below src/prospect, or in the folder of the first one."""
    first, *others = re.findall(r"`([\w./-]+\.(?:py|js)|[\w./-]+/|scripts/\w+)`", " ".join(row[1:]))
    top = ROOT if first.startswith("scripts/") else SOURCE
    found = [top / first]
    folder = found[0] if found[0].is_dir() else found[0].parent
    for name in others:
        near = [folder / name, SOURCE / name, ROOT / name]
        found.append(next((path for path in near if path.exists()), SOURCE / name))
    return found


def text_of(path: Path) -> str:
    files = (
        [one for one in path.rglob("*") if one.suffix in (".py", ".js")]
        if path.is_dir()
        else [path]
    )
    texts = (f"{one.relative_to(ROOT)}\n{one.read_text()}" for one in files)
    return "\n".join(texts).lower().replace("_", " ")


def test_the_page_has_a_row_for_much():
    assert len(ROWS) > 100


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_words_of_a_row_are_in_its_files(row):
    text = "\n".join(map(text_of, files_of(row)))
    for word in re.findall(r"[\w±]+", row[0].lower().replace("_", " ")):
        assert word in LINKS or word.rstrip("s") in text, word


def test_each_room_has_a_row():
    named = {
        path.relative_to(SOURCE).parts[0]
        for row in ROWS
        for path in files_of(row)
        if path.is_relative_to(SOURCE)
    }
    rooms = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    assert rooms <= named
