import os
from pathlib import Path

import numpy as np
import pytest

from builders.elf import Symbol, code, elf_file
from prospect.elf.image import ElfImage
from prospect.profile.model import KIND_ANON, KIND_JIT, KIND_KERNEL, KIND_UNKNOWN, KIND_VDSO
from prospect.profile.naming import NameSource
from prospect.symbols.images import read_symbol_table
from prospect.symbols.map_files import parse_map_file
from prospect.symbols.objects import ObjectKey
from prospect.symbols.options import SymbolOptions
from prospect.symbols.resolution import Resolution
from prospect.symbols.symbolizer import Symbolizer
from prospect.symbols.table import SymbolTable

ID = bytes(range(20))


@pytest.fixture(autouse=True)
def no_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def symbolizer(**options: object) -> Symbolizer:
    return Symbolizer(SymbolOptions(**({"use_cache": False} | options)))


def resolve(key: ObjectKey, *address: int, pids: tuple[int, ...] = ()) -> Resolution:
    return symbolizer().resolve(key, pids, np.array(address, np.uint64))


def reasons(found: Resolution) -> list[int]:
    assert (found.named.function == -1).all()
    return found.named.reason.tolist()


def image(tmp_path: Path, **more: object) -> tuple[ObjectKey, int]:
    """Write an image; return its key and the offset of its first instruction."""
    content = elf_file(sections=[code()], build_id=ID, **more)
    (tmp_path / "image").write_bytes(content)
    offset = ElfImage.parse(content).offset_of_svma(np.array([0x1000], np.uint64))
    return ObjectKey(os.fsencode(tmp_path / "image"), ID), int(offset[0])


def test_offsets_become_addresses_of_the_image_and_functions(tmp_path: Path) -> None:
    symbols = [Symbol("_ZN1a1bEv", 0x1000, 16), Symbol("local", 0x1010, 16, binding=0)]
    key, offset = image(tmp_path, symbols=symbols)
    found = resolve(key, offset + 20, offset + 4, offset + 5, offset + 100, 2**40)
    named = found.named
    assert named.address.tolist() == [0x1014, 0x1004, 0x1005, 0x1064, 2**40]
    assert [named.name[row] if row >= 0 else "" for row in named.function] == [
        "local",
        "a::b()",
        "a::b()",
        "",
        "",
    ]
    assert named.raw_name == ["_ZN1a1bEv", "local"]
    assert named.is_global.tolist() == [True, False]
    assert named.function_address.tolist() == [0x1000, 0x1010]
    assert named.function_size.tolist() == [16, 16]
    assert named.reason.tolist() == [NameSource.SYMTAB] * 3 + [NameSource.NO_COVER] * 2
    assert found.build_id == ID.hex()
    assert set(named.object_path) == {found.path}


def test_an_image_without_symbols_is_stripped(tmp_path: Path) -> None:
    key, offset = image(tmp_path)
    assert reasons(resolve(key, offset)) == [NameSource.NO_STRIPPED]


def test_an_image_with_exports_alone_counts_as_stripped_beyond_them(tmp_path: Path) -> None:
    key, _ = image(tmp_path, dynamic_symbols=[Symbol("exported", 0x1000, 16)])
    assert reasons(resolve(key, 2**40)) == [NameSource.NO_STRIPPED]


def test_a_table_from_the_cache_gives_the_same_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("PROSPECT_NO_CACHE", raising=False)
    key, offset = image(tmp_path, symbols=[Symbol("function", 0x1000, 16)])
    for _ in range(2):
        kept = symbolizer(use_cache=True).resolve(key, (), np.array([offset], np.uint64))
        assert kept.named.name == ["function"]
    assert list((tmp_path / "prospect").iterdir())


def test_a_changed_file_is_said_once(tmp_path: Path) -> None:
    key, offset = image(tmp_path)
    namer = symbolizer()
    for _ in range(2):
        found = namer.resolve(key._replace(build_id=b"x" * 20), (), np.array([offset], np.uint64))
        assert reasons(found) == [NameSource.NO_MATCH]
        assert "build id" in found.note
    assert len(namer.notes) == 1


def test_a_path_of_any_bytes_is_shown_as_text() -> None:
    found = resolve(ObjectKey(b"/none/\xff\n"), 1)
    assert reasons(found) == [NameSource.NO_FILE]
    assert found.path == "/none/\udcff\n"


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (ObjectKey(b"[guest]", kind=KIND_UNKNOWN), NameSource.NO_GUEST),
        (ObjectKey(b"[guest.kernel.kallsyms]", kind=KIND_UNKNOWN), NameSource.NO_GUEST),
        (ObjectKey(b"[unknown]", kind=KIND_UNKNOWN), NameSource.NO_MAPPING),
        (ObjectKey(b"//anon", kind=KIND_ANON), NameSource.NO_ANONYMOUS),
        (ObjectKey(b"[vdso32]", kind=KIND_VDSO), NameSource.NO_FILE),
        (ObjectKey(b"[vdso]", b"x" * 20, kind=KIND_VDSO), NameSource.NO_MATCH),
        (ObjectKey(b"[kernel.kallsyms]", kind=KIND_KERNEL), NameSource.NO_KERNEL_SYMBOLS),
    ],
)
def test_what_cannot_be_named_has_its_reason(key: ObjectKey, reason: NameSource) -> None:
    assert reasons(resolve(key, 0x1000, 0x2000)) == [reason, reason]


def test_no_addresses_give_no_functions(tmp_path: Path) -> None:
    for key in (image(tmp_path)[0], ObjectKey(b"[vsyscall]", kind=KIND_VDSO), ObjectKey(b"/none")):
        assert len(resolve(key).named.address) == 0


@pytest.mark.parametrize("address", [0x10, 0xFFFFFFFFFF600400])
def test_the_vsyscall_page_has_one_name(address: int) -> None:
    found = resolve(ObjectKey(b"[vsyscall]", kind=KIND_VDSO), address)
    assert found.named.name == ["__vsyscall_page"]
    assert found.named.source.tolist() == [NameSource.VDSO]


def test_a_map_file_makes_anonymous_memory_jit() -> None:
    pid = 2**30 + 1
    path = Path(f"/tmp/perf-{pid}.map")
    path.write_bytes(b"7f0000001000 40 Function:go\n")
    key = ObjectKey(b"/memfd:doublemapper (deleted)", kind=KIND_ANON)
    try:
        found = resolve(key, 0x7F0000001004, 0x7F0000002000, pids=(pid,))
        other = symbolizer(hostname="elsewhere").resolve(
            key, (pid,), np.array([0x7F0000001004], np.uint64)
        )
    finally:
        path.unlink()
    assert found.kind == KIND_JIT
    assert found.named.name == ["Function:go"]
    assert found.named.reason.tolist() == [NameSource.MAP_FILE, NameSource.NO_ANONYMOUS]
    assert reasons(other) == [NameSource.NO_ANONYMOUS]


def test_a_map_file_is_parsed_once_for_all_mappings_of_its_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parsed = []

    def parse(text: memoryview) -> SymbolTable:
        parsed.append(bytes(text))
        return parse_map_file(text)

    monkeypatch.setattr("prospect.symbols.symbolizer.parse_map_file", parse)
    pid = 2**31 - 2
    path = Path(f"/tmp/perf-{pid}.map")
    path.write_text("1000 10 compiled\n")
    try:
        names = symbolizer()
        for mapping in (b"//anon", b"[anon:v8]"):
            key = ObjectKey(mapping, kind=KIND_ANON)
            found = names.resolve(key, [pid], np.array([0x1008], np.uint64))
            assert found.named.name == ["compiled"]
    finally:
        path.unlink()
    assert len(parsed) == 1


def test_a_file_is_read_once_under_all_its_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []

    def read_table(*images: ElfImage | None) -> SymbolTable:
        read.append(images)
        return read_symbol_table(*images)

    monkeypatch.setattr("prospect.symbols.symbolizer.read_symbol_table", read_table)
    key, offset = image(tmp_path, symbols=[Symbol(b"main", 0x1000, 16)])
    names = symbolizer()
    for path in (key.path, os.fsencode(tmp_path) + b"/./image"):
        found = names.resolve(key._replace(path=path), [], np.array([offset], np.uint64))
        assert found.named.name == ["main"]
    assert len(read) == 1
