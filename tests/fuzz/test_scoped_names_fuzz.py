"""Any DWARF gives qualified names or none, never another exception, in bounded time."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.elf import Section, code, elf_file
from builders.examples import examples
from prospect.elf.image import ElfImage
from prospect.lines.scoped_names import ScopedNames, SearchBudget

# 1: a unit; 2: a namespace that is named in place; 3: a subprogram likewise; 4: one with a sibling;
# 5: a variable of 200 LEB128 numbers.
ABBREVIATIONS = (
    b"\1\x11\1\0\0"
    b"\2\x39\1\3\x08\0\0"
    b"\3\x2e\0\3\x08\0\0"
    b"\4\x2e\1\3\x08\1\x13\0\0"
    b"\5\x34\0" + b"\x02\x0f" * 200 + b"\0\0\0"
)


def unit(body):
    rest = b"\4\0" + bytes(4) + b"\x08" + body
    return len(rest).to_bytes(4, "little") + rest


def qualified(info, abbreviations=ABBREVIATIONS, strings=b"\0f\0"):
    contents = {".debug_info": info, ".debug_abbrev": abbreviations, ".debug_str": strings}
    sections = [code(), *(Section(name, content) for name, content in contents.items())]
    return ScopedNames(ElfImage.parse(elf_file(sections=sections)), SearchBudget()).qualified(
        {b"f"}
    )


def test_these_abbreviations_are_read():
    assert qualified(unit(b"\1\2n\0\3f\0\0\0")) == {b"f": b"n::f"}
    assert qualified(unit(b"\1\2\0\3f\0\0\0")) == {b"f": b"(anonymous namespace)::f"}
    assert qualified(unit(b"\1\2n\0\3f\0\0\3f\0\0")) == {}


@settings(max_examples=examples(300))
@given(st.binary(max_size=200), st.binary(max_size=60), st.binary(max_size=20))
def test_any_bytes(body, abbreviations, strings):
    qualified(unit(b"\1f\0" + body))
    qualified(unit(body + b"f\0"), ABBREVIATIONS[:-1] + abbreviations, strings + b"f\0")
    qualified(body + b"f\0", abbreviations)


@settings(max_examples=examples(300))
@given(st.lists(st.sampled_from([b"\1", b"\2n\0", b"\3f\0", b"\4f\0\x20\0\0\0", b"\0"])))
def test_any_entries(entries):
    assert set(qualified(unit(b"\1" + b"".join(entries)))) <= {b"f"}


@pytest.mark.parametrize(
    "body",
    [
        (b"\2" + b"n" * 60 + b"\0") * 50_000 + b"\3f\0",
        (b"\2" + b"n" * 4000 + b"\0") * 5_000 + b"\3f\0" + bytes(5_001),
        b"\3f\0" + (b"\5" + bytes(200)) * 50_000 + b"\0",
        b"\4f\0\x0c\0\0\0" * 50_000,
    ],
    ids=["deep", "long-names", "many-attributes", "siblings-that-lead-back"],
)
def test_what_is_made_to_take_long_ends(body):
    began = time.process_time()
    assert qualified(unit(b"\1" + body)) == {}
    assert time.process_time() - began < 20
