"""A program whose only call-frame information is .sframe: its stacks are those of .eh_frame."""

import shutil
import subprocess

import numpy as np
import pytest

from builders import unwinding
from builders.recordings import PROSPECT, build_program
from builders.unwinding import image_of, name_sites, read_recording, rows_of_image
from prospect.elf.frame_entries import read_frames
from prospect.elf.sframe import read_sframe
from prospect.unwind import interface
from prospect.unwind.unwinder import unwind

pytestmark = [
    pytest.mark.live,
    pytest.mark.parallel,
    pytest.mark.skipif(not shutil.which("objcopy"), reason="needs binutils"),
]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A recording of a program without .eh_frame, its path, and the path of the same with it."""
    directory = tmp_path_factory.mktemp("sframe")
    try:
        whole = build_program(directory, "whole", "-O2", "-Wa,--gsframe", source="calltree")
    except subprocess.CalledProcessError:
        pytest.skip("the assembler does not write .sframe")
    bare = directory / "bare"
    removed = ("-R", ".eh_frame", "-R", ".eh_frame_hdr")
    subprocess.run(["objcopy", *removed, whole, bare], check=True, capture_output=True)
    data = directory / "recording"
    options = ("--no-python", "-H", "997", "--call-graph", "dwarf")
    command = [*PROSPECT, "record", *options, "-o", data, bare, "3000"]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return data, str(bare).encode(), str(whole).encode()


def test_chains_are_those_of_eh_frame(recorded, monkeypatch):
    data, bare, whole = recorded
    assert read_frames(image_of(bare)) is None
    assert read_sframe(image_of(bare)) is not None
    given, finder, *_ = read_recording(data)
    by_sframe = unwind(given, finder)
    monkeypatch.setattr(
        unwinding, "rows_of_image", lambda path: rows_of_image(whole if path == bare else path)
    )
    by_eh_frame = unwind(given, finder)
    names = name_sites(by_sframe.sites, finder, bare)
    chains, expected = by_sframe.chains(), by_eh_frame.chains()
    assert len(by_sframe) > 200
    assert np.mean(by_sframe.end == interface.END_COMPLETE) > 0.99
    assert (by_sframe.end == by_eh_frame.end).all()
    assert (chains.start == expected.start).all()
    assert (chains.address == expected.address).all()
    shapes = {
        tuple(names[site] for site in chains.site[low:high].tolist())
        for low, high in zip(chains.start[:-1].tolist(), chains.start[1:].tolist(), strict=True)
    }
    deep = ("inner", *["recurse"] * 9, "outer", "main")
    assert any(shape[: len(deep)] == deep for shape in shapes)
    assert any(shape[:1] == ("compares",) and "sorts" in shape for shape in shapes)
