"""Instructions of real images beside those of objdump(1): the same bounds, and the same meaning.

Differences that are left, and why. Bytes that are no instruction: objdump shows several as one
``(bad)`` or as a lone prefix, we show one at a time; they stand in tables of constants between
functions, where no hit is. The waiting forms of x87 instructions (``fstcw``): objdump shows the
``fwait`` as part of them; to the processor it is an instruction of its own. Ways of writing: see
`normal`.
"""

import os
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import numpy as np
import pytest

from prospect.disasm.decoders import disassemble
from prospect.elf import elf_layout
from prospect.profile.optional_tables import FLOW_UNKNOWN
from prospect.symbols.images.image_files import open_image

pytest.importorskip("iced_x86")
pytestmark = pytest.mark.skipif(not shutil.which("objdump"), reason="needs binutils")

MOST_BYTES = 200_000
# Of C with instructions of vectors, of C++, of large functions, and of a compiler's usual ones.
EVERY_DAY = {"libc.so.6", "libm.so.6", "sh"}
LINE = re.compile(r"^\s*([0-9a-f]+):\t((?:[0-9a-f]{2} )+)\s*(?:\t(.*))?$")


def images():
    libc = Path("/lib") / (sysconfig.get_config_var("MULTIARCH") or "") / "libc.so.6"
    programs = ("sh", "env", "bash", "perl", "objdump", "gdb", "tar")
    libraries = ("c.so.6", "m.so.6", "z.so.1", "stdc++.so.6", "gcc_s.so.1", "elf.so.1")
    libraries += ("tinfo.so.6", "zstd.so.1", "lzma.so.5", "gmp.so.10")
    names = [f"/usr/bin/{name}" for name in programs]
    names += [str(libc.with_name(f"lib{name}")) for name in libraries]
    return [
        pytest.param(name, marks=[] if Path(name).name in EVERY_DAY else [pytest.mark.nightly])
        for name in names
        if Path(name).exists()
    ]


def listed(path, start, stop):
    """Return {address: (size, text)} of objdump."""
    command = ["objdump", "-d", "-w", "-j", ".text", f"--start-address={start}"]
    ran = subprocess.run(
        [*command, f"--stop-address={stop}", path], capture_output=True, text=True, check=True
    )
    found = map(LINE.match, ran.stdout.splitlines())
    return {int(m[1], 16): (len(m[2].split()), m[3] or "") for m in found if m}


def normal(text):
    """Bring two ways of writing an instruction to one.

    Names and comments are left out, prefixes without effect, displacements and factors that do
    nothing, the letter for a size that the operands tell, and which base an operand need not name.
    """
    text = re.sub(r"\s*(<.*|#.*)", "", text).replace("*", "")
    text = re.sub(r"^(?:(?:data16|cs|ds|es|notrack|bnd|rex\.\w+|repz(?= ret)) )+", "", text)
    text = re.sub(r"%[de]s:(?=\()", "", text)
    text = re.sub(r"(?<![0-9a-fx])(?:0x)?0(?=\()", "", text)
    text = re.sub(r",1\)", ")", text).replace("0x", "").replace("$1,", "")
    mnemonic, _, operands = text.partition(" ")
    operands = operands.replace(" ", "")
    if mnemonic.startswith("f"):
        operands = re.sub(r"^(%st,)?%st\(1\)$", "", operands)
    if mnemonic.startswith("imul"):
        operands = re.sub(r"^(\$.*),(%\w+),\2$", r"\1,\2", operands)
    return mnemonic.rstrip("bwlq"), operands


@pytest.fixture(scope="module", params=images(), ids=os.path.basename)
def pair(request):
    found = open_image(os.fsencode(os.path.realpath(request.param)))
    if found is None or found.image.machine != elf_layout.EM_X86_64:
        pytest.skip("no x86-64 image")
    row = found.image.find_section(b".text")
    start = int(found.image.sections[row]["addr"])
    # Cut where objdump says that an instruction ends.
    code = bytes(found.image.section_data(row)[:MOST_BYTES])
    theirs = listed(found.file.path, start, start + len(code))
    end = max(address for address in theirs if address + theirs[address][0] <= start + len(code))
    size = end + theirs[end][0] - start
    ours = disassemble(code[:size], start, elf_layout.EM_X86_64)
    return ours, {a: row for a, row in theirs.items() if a < start + size}


def test_instructions_begin_and_end_where_objdump_has_them(pair):
    ours, theirs = pair
    is_code = ours.flow != FLOW_UNKNOWN
    assert is_code.mean() > 0.999
    expected = {a: size for a, (size, text) in theirs.items() if "(bad)" not in text}
    got = dict(zip(ours.address[is_code].tolist(), ours.size_bytes[is_code].tolist(), strict=True))
    assert len(got) > 1000
    wrong = [hex(a) for a in got.keys() | expected.keys() if got.get(a) != expected.get(a)]
    assert len(wrong) <= 0.001 * len(expected), wrong[:10]


def test_texts_say_the_same_as_those_of_objdump(pair):
    ours, theirs = pair
    both = [
        (normal(text), normal(theirs[address][1]), text, theirs[address][1])
        for address, text in zip(ours.address.tolist(), ours.text, strict=True)
        if address in theirs
    ]
    different = [(a, b) for one, other, a, b in both if one != other]
    assert len(different) <= 0.001 * len(both), different[:20]


def test_targets_of_jumps_and_calls_are_those_of_objdump(pair):
    ours, theirs = pair
    direct = re.compile(r"^(?:\w+ )*(?:call|j\w+)\s+([0-9a-f]+)(?: |$)")
    told = {a: direct.match(text) for a, (_, text) in theirs.items()}
    expected = {a: int(match[1], 16) for a, match in told.items() if match}
    leads = ours.target != np.uint64(2**64 - 1)
    got = dict(zip(ours.address[leads].tolist(), ours.target[leads].tolist(), strict=True))
    assert len(expected) > 100
    wrong = [hex(a) for a, target in expected.items() if got.get(a) != target]
    assert len(wrong) <= 0.001 * len(expected), wrong[:10]
