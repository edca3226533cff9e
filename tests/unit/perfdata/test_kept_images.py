"""Files that a recording keeps: written and read again, and refused where they are damaged."""

from __future__ import annotations

import struct

import pytest

from prospect.abi.recorded_facts import KeptImage
from prospect.errors import RecordingError
from prospect.perfdata.format import HEADER_PROSPECT_IMAGES, FieldReader
from prospect.perfdata.kept_images import decode_images, encode_images
from prospect.perfdata.metadata import decode_feature

PIECES = ((0, 64), (4096, 32))
CONTENT = bytes(range(64)) + b"x" * 32
IMAGES = (
    KeptImage((8, 1, 77), bytes(range(20)), b"/tmp/a", 10_000, PIECES, lambda: CONTENT, 1 << 60),
    KeptImage((0, 40, 78), b"", b"/b\xff", 96, ((0, 96),), lambda: CONTENT),
)
# Large enough to be packed.
LARGE = KeptImage((8, 1, 79), b"", b"/large", 1 << 16, ((0, 1 << 16),), lambda: CONTENT[:64] * 1024)


def decoded(section):
    return decode_images(FieldReader(memoryview(section), "<"))


@pytest.mark.parametrize("packs", [False, True])
def test_files_are_read_as_they_were_written(packs):
    section = encode_images((*IMAGES, LARGE), packs=packs)
    assert (len(section) < LARGE.size) == packs
    again = decode_feature(HEADER_PROSPECT_IMAGES, memoryview(section), "<")["images"]
    assert [one[:5] for one in again] == [one[:5] for one in (*IMAGES, LARGE)]
    assert [one.modified_ns for one in again] == [1 << 60, 0, 0]
    assert [bytes(one.content()) for one in again] == [CONTENT, CONTENT, LARGE.content()]


def test_files_without_a_time_are_read():
    section = bytearray(encode_images([IMAGES[1]], packs=False))
    struct.pack_into("<I", section, 8, 1)
    time_at = struct.calcsize("<8sIIIIQQ")
    (image,) = decoded(bytes(section[:time_at] + section[time_at + 8 :]))
    assert image[:5] == IMAGES[1][:5]
    assert image.modified_ns == 0


@pytest.mark.parametrize("packs", [False, True])
def test_a_cut_section_is_refused(packs):
    section = encode_images((*IMAGES, LARGE) if packs else IMAGES, packs=packs)
    for end in range(0, len(section), 7):
        with pytest.raises(RecordingError):
            decoded(section[:end])


def test_pieces_outside_of_their_file_and_other_sizes_are_refused():
    for pieces in (((0, 64), (9990, 32)), ((0, 64), (32, 32)), ((0, 64), (4096, 33))):
        section = encode_images([IMAGES[0]._replace(pieces=pieces)], packs=False)
        with pytest.raises(RecordingError):
            decoded(section)


def test_a_frame_that_unpacks_to_something_else_is_damaged():
    section = encode_images([IMAGES[0]._replace(content=lambda: b"z" * 1_000_000)], packs=True)
    (image,) = decoded(section)
    with pytest.raises(ValueError):  # noqa: PT011 - has no words
        image.content()


def test_another_version_is_refused():
    section = bytearray(encode_images(IMAGES, packs=False))
    struct.pack_into("<I", section, 8, 3)
    with pytest.raises(RecordingError, match="this version"):
        decoded(bytes(section))
