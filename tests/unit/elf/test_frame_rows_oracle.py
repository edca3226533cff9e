"""Call-frame rows of the machine's own images, against a plain interpreter and readelf."""

import functools
import mmap
import os
import platform
import random
import re
import shutil
import subprocess
import sysconfig
import time
from pathlib import Path

import numpy as np
import pytest

from builders.examples import examples
from builders.reference_cfi import ARM, X86, plain_rule, rows_of_function
from prospect.elf import elf_layout
from prospect.elf import frame_rules as rules
from prospect.elf.frame_entries import read_frames
from prospect.elf.frame_rows import read_frame_rows
from prospect.elf.image import ElfImage
from prospect.errors import ElfError

# By machine: its number in images, its registers, and those that a CFA counts from.
_MACHINES = {
    "x86_64": (elf_layout.EM_X86_64, X86, {rules.KIND_SP: 7, rules.KIND_FP: 6}),
    "aarch64": (elf_layout.EM_AARCH64, ARM, {rules.KIND_SP: 31, rules.KIND_FP: 29}),
}
if platform.machine() not in _MACHINES:
    pytest.skip("call-frame rows are made for x86-64 and arm64", allow_module_level=True)
_MACHINE, _REGISTERS, _BASES = _MACHINES[platform.machine()]
# Debian's and its offspring's; then those of all others.
_TRIPLET = sysconfig.get_config_var("MULTIARCH") or f"{platform.machine()}-linux-gnu"
_LIBRARIES = (f"/usr/lib/{_TRIPLET}", "/usr/lib64", "/usr/lib")
_DIRECTORIES = (*_LIBRARIES[:2], "/usr/bin", f"/usr/lib/gcc/{_TRIPLET}")
_FUNCTIONS_EACH = 12
_SECONDS = examples(6)  # of the processor; which images are met in it is by chance
_MOST_BYTES = 3 << 20


@functools.cache
def every_image():
    found = []
    for directory in _DIRECTORIES:
        for where, _, names in os.walk(directory):
            paths = (Path(where) / name for name in sorted(names))
            found += [p for p in paths if not p.is_symlink() and p.is_file()]
    return found


def parse(path):
    try:
        with path.open("rb") as file:
            if file.read(4) != b"\x7fELF" or path.stat().st_size > _MOST_BYTES:
                return None
            image = ElfImage.parse(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (ElfError, OSError):  # a package that is being installed takes files away
        return None
    return image if image.machine == _MACHINE and image.type in (2, 3) else None


def unpacked(rule):
    """What a packed rule says, as `plain_rule` has it; None for none."""
    kind, number = rule >> rules.KIND_SHIFT, rule >> rules.REGISTER_SHIFT & 31
    if kind == rules.KIND_END:
        return "end"
    if kind == rules.KIND_ABSENT:
        return None
    one = np.array([rule])
    names = {rules.RULE_AT_CFA: "cfa", rules.RULE_AT_FP: "fp"}

    def saved(how, distance):
        if how in names:
            return (names[how], int(distance[0]))
        return ("same",) if how == rules.RULE_SAME else ("lost",)

    fp = saved(rule >> 32 & 3, rules.fp_bytes(one))
    second = saved(rule >> 15 & 3, rules.second_bytes(one))
    if kind == rules.KIND_REGISTER or kind in _BASES:
        return (_BASES.get(kind, number), int(rules.cfa_bytes(one)[0]), fp, second)
    return ("expression", kind, fp, second)


def test_every_image_agrees_with_the_plain_interpreter():
    chance = random.Random(7)
    images = rows = 0
    unlike = []
    paths = list(every_image())
    chance.shuffle(paths)
    begin = time.process_time()
    for path in paths:
        if time.process_time() - begin > _SECONDS:
            break
        image = parse(path)
        frames = image and read_frames(image)
        if not frames:
            continue
        images += 1
        table = read_frame_rows(image)
        chosen = chance.sample(range(len(frames)), min(_FUNCTIONS_EACH, len(frames)))
        for row in chosen:
            if frames.cies[int(frames.cie[row])].is_signal_frame:
                continue
            expected = rows_of_function(frames, row)
            starts = np.array([start for start, _, _ in expected], np.uint64)
            found = table.look_up(starts).tolist()
            # Rows of no length are covered by what follows them.
            last = {start: n for n, (start, _, _) in enumerate(expected)}
            for number in last.values():
                start, cfa, saved = expected[number]
                rows += 1
                plain, actual = plain_rule(cfa, saved, _REGISTERS), unpacked(found[number])
                if plain and plain[0] == "expression" and (not actual or actual[0] != "end"):
                    # Forms that occur are read by other tests; here the rest must agree.
                    plain = actual and ("expression", actual[1], *plain[2:])
                if plain != actual:
                    unlike.append((str(path), hex(start), plain, actual))
    assert images > 20
    assert rows > 1000
    assert len(unlike) < rows / 10000, unlike[:5]


@pytest.mark.skipif(_REGISTERS is not X86, reason="reads how readelf writes x86-64's registers")
@pytest.mark.skipif(not shutil.which("readelf"), reason="needs binutils")
@pytest.mark.parametrize("name", ["libc.so.6", "libm.so.6", "libgcc_s.so.1"])
def test_readelf_agrees(name):
    found = [Path(directory) / name for directory in _LIBRARIES]
    path = next((path for path in found if path.exists()), None)
    if path is None:
        pytest.skip(f"no {name} in {', '.join(_LIBRARIES)}")
    told = subprocess.run(
        ["readelf", "--debug-dump=frames-interp", path], capture_output=True, text=True, check=False
    ).stdout  # its status tells of other sections, too
    columns, places, wanted = None, [], []
    for line in told.splitlines():
        words = line.split()
        if words[:1] == ["LOC"]:
            columns = words
        elif columns and words and re.fullmatch("[0-9a-f]{16}", words[0]) and "=" not in line:
            row = dict(zip(columns, words, strict=False))
            places.append(int(words[0], 16))
            wanted.append((row["CFA"], row.get("rbp", "u"), row.get("ra")))
    table = read_frame_rows(parse(path))
    found = table.look_up(np.array(places, np.uint64)).tolist()
    compared = 0
    for place, (cfa, fp, returns), rule in zip(places, wanted, found, strict=True):
        base = re.fullmatch(r"r(sp|bp)\+(\d+)", cfa)
        if place == 0 or not base or returns != "c-8" or not re.fullmatch(r"[us]|c-\d+", fp):
            continue
        compared += 1
        saved = ("same",) if fp in ("u", "s") else ("cfa", int(fp[1:]))
        assert unpacked(rule)[:3] == ({"sp": 7, "bp": 6}[base[1]], int(base[2]), saved), hex(place)
    assert compared > 100
