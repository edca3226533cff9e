import os
from pathlib import Path

import numpy as np
import pytest

from builders.debug_server import serving
from builders.eh_frame import frame_sections
from builders.elf import Symbol, code, elf_file
from prospect.elf.image import ElfImage
from prospect.profile.model import KIND_ANON, KIND_JIT, KIND_KERNEL, KIND_UNKNOWN, KIND_VDSO
from prospect.profile.naming import NameSource
from prospect.symbols.images import image_symbols
from prospect.symbols.images.image_files import read_own_vdso
from prospect.symbols.images.image_symbols import read_symbol_table
from prospect.symbols.jit.map_files import parse_map_file
from prospect.symbols.naming_options import DebugServers, SymbolOptions
from prospect.symbols.objects import HitObject, ObjectKey
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
    assert named.linkage_name == ["_ZN1a1bEv", "local"]
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


def test_symbols_of_the_vdso_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("PROSPECT_NO_CACHE", raising=False)
    vdso = read_own_vdso()
    assert vdso is not None
    key = ObjectKey(b"[vdso]", vdso.build_id or b"", kind=KIND_VDSO)
    offset = vdso.offset_of_svma(read_symbol_table(vdso).start)
    found = [symbolizer(use_cache=True).resolve(key, (), offset).named]
    monkeypatch.setattr(image_symbols, "read_symbol_table", None)
    found.append(symbolizer(use_cache=True).resolve(key, (), offset).named)
    first, again = ((list(one.name), one.source.tolist(), one.aliases) for one in found)
    assert first == again
    assert set(first[1]) == {NameSource.VDSO}


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

    monkeypatch.setattr("prospect.symbols.jit.map_files.parse_map_file", parse)
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

    monkeypatch.setattr("prospect.symbols.images.image_symbols.read_symbol_table", read_table)
    key, offset = image(tmp_path, symbols=[Symbol(b"main", 0x1000, 16)])
    names = symbolizer()
    for path in (key.path, os.fsencode(tmp_path) + b"/./image"):
        found = names.resolve(key._replace(path=path), [], np.array([offset], np.uint64))
        assert found.named.name == ["main"]
    assert len(read) == 1


def stripped(tmp_path: Path, number: int) -> tuple[ObjectKey, int, bytes]:
    """Write a stripped image; return its key, an offset in its function, and its debug file."""
    build_id = bytes([number]) * 20
    content = elf_file(sections=[code(), *frame_sections([(0x1000, 32)])], build_id=build_id)
    path = tmp_path / f"image{number}"
    path.write_bytes(content)
    offset = ElfImage.parse(content).offset_of_svma(np.array([0x1000], np.uint64))
    symbols = [Symbol(f"function{number}", 0x1000, 32)]
    debug = elf_file(sections=[code(size=0x1000)], symbols=symbols, build_id=build_id)
    return ObjectKey(os.fsencode(path), build_id), int(offset[0]), debug


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for variable in ("PROSPECT_NO_CACHE", "http_proxy", "HTTP_PROXY", "DEBUGINFOD_CACHE_PATH"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path / "prospect"


def test_a_server_is_asked_for_what_has_no_symbols_most_hit_first(
    tmp_path: Path, cached: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prospect.symbols.servers.downloads.MOST_DOWNLOADS", 1)
    whole, offset = image(tmp_path, symbols=[Symbol("main", 0x1000, 16)])
    twins = {number: stripped(tmp_path, number) for number in (1, 2, 3)}
    files = {(twins[2][0].build_id.hex(), "debuginfo"): twins[2][2]}
    objects = [HitObject(whole, (), 99), HitObject(ObjectKey(b"//anon", kind=KIND_ANON), (), 98)]
    objects += [HitObject(twins[number][0], (), 10 * number) for number in twins]
    with serving(files) as (url, asked):
        namer = symbolizer(use_cache=True, servers=DebugServers((url,)))
        namer.fetch(objects, None)
    assert [path.split("/")[2][:2] for path in asked] == ["03", "02", "01"]
    found = {n: namer.resolve(k, (), np.array([o], np.uint64)) for n, (k, o, _) in twins.items()}
    assert found[2].named.name == ["function2"]
    assert found[2].named.source.tolist() == [NameSource.DEBUG_SERVER]
    assert found[2].note == ""
    assert found[1].named.name == ["[fn at 0x1000]"]
    assert found[1].named.reason.tolist() == [NameSource.NO_NAME_BOUNDS]
    assert found[1].note == "no debug-file server has it"
    assert namer.resolve(whole, (), np.array([offset], np.uint64)).named.name == ["main"]
    assert namer.notes == []


def test_the_table_of_a_fetched_file_is_another_one_than_that_of_a_file_here(
    tmp_path: Path, cached: Path
) -> None:
    key, offset, debug = stripped(tmp_path, 1)
    with serving({(key.build_id.hex(), "debuginfo"): debug}) as (url, _):
        symbolizer(use_cache=True, servers=DebugServers((url,))).fetch(
            [HitObject(key, (), 1)], None
        )
    sources = []
    for _ in range(2):
        found = symbolizer(use_cache=True).resolve(key, (), np.array([offset], np.uint64))
        sources += found.named.source.tolist()
    here = tmp_path / "home" / ".debug" / ".build-id" / key.build_id.hex()[:2]
    (here / key.build_id.hex()[2:]).mkdir(parents=True)
    (here / key.build_id.hex()[2:] / "debug").write_bytes(debug)
    found = symbolizer(use_cache=True).resolve(key, (), np.array([offset], np.uint64))
    assert [*sources, *found.named.source.tolist()] == [
        NameSource.DEBUG_SERVER,
        NameSource.DEBUG_SERVER,
        NameSource.DEBUG_FILE,
    ]


def test_without_a_cache_no_server_is_asked_and_that_is_said(tmp_path: Path) -> None:
    key, _, _ = stripped(tmp_path, 1)
    with serving({}) as (url, asked):
        namer = symbolizer(servers=DebugServers((url,)))
        namer.fetch([HitObject(key, (), 1)], None)
    assert asked == []
    assert "No debug-file server was asked" in namer.notes[0]


def test_of_an_object_without_a_build_id_nothing_is_asked(tmp_path: Path, cached: Path) -> None:
    (tmp_path / "bare").write_bytes(elf_file(sections=[code()]))
    inode = (tmp_path / "bare").stat().st_ino
    with serving({}) as (url, asked):
        namer = symbolizer(use_cache=True, servers=DebugServers((url,)))
        namer.fetch(
            [HitObject(ObjectKey(os.fsencode(tmp_path / "bare"), inode=inode), (), 1)], None
        )
    assert asked == []
    assert namer.notes == []
