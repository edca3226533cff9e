"""Code of the kernel and of BPF programs: from the kernel's memory, or why there is none."""

from types import SimpleNamespace

import pytest

from builders.profile_builder import ProfileBuilder
from prospect.assembly.code import code
from prospect.assembly.code.code import CodeBytes
from prospect.disasm.kernel_code import NOT_RUNNING
from prospect.elf import elf_layout
from prospect.profile.model import CPUMODE_KERNEL, KIND_BPF, KIND_KERNEL, KIND_MODULE

ADDRESS = 0xFFFFFFFFC0000000
CODE = bytes(range(32))


class Kernel:
    """The kernel's memory, as `open_kernel` gives it."""

    image = SimpleNamespace(machine=elf_layout.EM_X86_64, is_64=True, data=memoryview(bytes(64)))

    def code_at(self, address, size):
        return CODE[address - ADDRESS :][:size]


def found(kind, kernel, monkeypatch, size=16):
    build = ProfileBuilder()
    process = build.process("x", 1)
    row = build.function("function", build.object("[object]", kind), ADDRESS, size_bytes=size)
    build.hit(process, row, 1, CPUMODE_KERNEL, offset=4)
    owner = SimpleNamespace(key=SimpleNamespace(kind=kind))
    recorded = SimpleNamespace(
        answers=None,
        collector=None,
        keys={},
        options=SimpleNamespace(kernel_image=""),
        symbolizer=SimpleNamespace(cache=None),
        owner=lambda *_: owner,
    )
    monkeypatch.setattr(code, "open_kernel", lambda *_: kernel)
    return CodeBytes(build.build(), recorded).function(row)


@pytest.mark.parametrize("kind", [KIND_KERNEL, KIND_MODULE, KIND_BPF])
def test_code_is_what_stands_in_the_kernels_memory(kind, monkeypatch):
    piece = found(kind, Kernel(), monkeypatch)
    assert (piece.content, piece.address) == (CODE[:16], ADDRESS)
    assert piece.target.machine == elf_layout.EM_X86_64


def test_without_its_memory_the_kernel_says_what_to_do_and_bpf_that_nothing_can_be_done(
    monkeypatch,
):
    assert found(KIND_KERNEL, NOT_RUNNING, monkeypatch) == NOT_RUNNING
    reason = found(KIND_BPF, NOT_RUNNING, monkeypatch)
    assert "in the kernel's memory only" in reason
    assert "the recorded kernel is not the running one" in reason
    assert "-L" not in reason
