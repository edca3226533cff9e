from __future__ import annotations

import os
import struct

import pytest

from prospect.abi import constants as abi
from prospect.capture.machine.kernel_maps import gnu_build_id, read_kernel_maps

ID = bytes(range(20))


def note(name, kind, content):
    padded = [part + bytes(-len(part) % 4) for part in (name, content)]
    return struct.pack("<III", len(name), len(content), kind) + b"".join(padded)


@pytest.fixture
def root(tmp_path):
    def write(path, content):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)

    write(
        "proc/kallsyms",
        b"0000000000000000 A fixed_percpu_data\n"
        b"ffffffff81000000 T startup_64\n"
        b"ffffffff81000000 T _stext\n"
        b"ffffffff81000000 T _text\n",
    )
    write("proc/iomem", b"00001000-0009fbff : System RAM\n  01000000-02209987 : Kernel code\n")
    write("sys/kernel/notes", note(b"Linux\0", 0x101, b"x" * 5) + note(b"GNU\0", 3, ID))
    write(
        "proc/modules",
        b"far 16384 0 - Live 0xffffffffc0020000 (OE)\n"
        b"near_by 999999 1 far, Live 0xffffffffc0010000\n"
        b"hidden 1 0 - Live 0x0000000000000000\n",
    )
    write("sys/module/near_by/notes/.note.gnu.build-id", note(b"GNU\0", 3, ID[::-1]))
    write(
        f"lib/modules/{os.uname().release}/modules.dep",
        b"kernel/drivers/near-by.ko.xz: kernel/x.ko\nkernel/x.ko:\n",
    )
    return tmp_path


def mmaps(data):
    found = []
    while data:
        kind, misc, size, pid, _, start, length, pgoff = struct.unpack_from("<IHHiIQQQ", data)
        assert (kind, misc, pid) == (abi.PERF_RECORD_MMAP, abi.PERF_RECORD_MISC_KERNEL, -1)
        name = data[40 : size - 32].partition(b"\0")[0]
        found.append((start, length, pgoff, name))
        data = data[size:]
    return found


def test_kernel_and_modules_are_mapped_as_perf_does_it(root):
    maps = read_kernel_maps(str(root))
    module = f"/lib/modules/{os.uname().release}/kernel/drivers/near-by.ko.xz".encode()
    text = 0xFFFFFFFF81000000
    assert mmaps(maps.records) == [
        (text, 0x1209988, text, b"[kernel.kallsyms]_text"),
        (0xFFFFFFFFC0010000, 0x10000, 0, module),
        (0xFFFFFFFFC0020000, 16384, 0, b"[far]"),
    ]
    assert [(found.name, found.build_id) for found in maps.build_ids[:2]] == [
        (b"[kernel.kallsyms]", ID),
        (module, ID[::-1]),
    ]
    assert maps.limits == ()


def test_kernel_text_of_hidden_length_reaches_to_the_end_of_memory(root):
    (root / "proc/iomem").write_bytes(b"00000000-00000000 : Kernel code\n")
    start, length, *_ = mmaps(read_kernel_maps(str(root)).records)[0]
    assert start + length == (1 << 64) - 1


def test_hidden_addresses_are_said_to_be(root):
    (root / "proc/kallsyms").write_bytes(b"0000000000000000 T _stext\n0000000000000000 T _text\n")
    maps = read_kernel_maps(str(root))
    assert mmaps(maps.records)[0][3] != b"[kernel.kallsyms]_text"
    assert "kptr_restrict" in maps.limits[0]


def test_machine_that_says_nothing_gives_nothing(tmp_path):
    maps = read_kernel_maps(str(tmp_path))
    assert maps.records == b""
    assert len(maps.limits) == 1


def test_vdso_has_a_build_id_here(tmp_path):
    build_ids = {found.name: found.build_id for found in read_kernel_maps(str(tmp_path)).build_ids}
    assert len(build_ids[b"[vdso]"]) in (16, 20)


@pytest.mark.parametrize(
    "notes",
    [
        b"",
        b"\x04\0\0",
        note(b"GNU\0", 3, ID)[:-4],
        note(b"GNU\0", 1, ID),
        note(b"XYZ\0", 3, ID),
        struct.pack("<III", 0xFFFFFFFF, 0xFFFFFFFF, 3) + b"GNU\0",
    ],
)
def test_damaged_notes_have_no_build_id(notes):
    assert gnu_build_id(notes) == b""
