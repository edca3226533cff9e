"""Which listing names a recorded kernel, on machines made of files."""

import os
from pathlib import Path

import numpy as np
import pytest

from builders.eh_frame import frame_sections
from builders.elf import Symbol, build_id_note, code, elf_file
from prospect.profile.model import KIND_KERNEL
from prospect.profile.naming import NameSource
from prospect.records import replace
from prospect.symbols.images import image_files
from prospect.symbols.kept_names import CachingSymbolizer, KeptNames
from prospect.symbols.kernel.kernel_listings import KernelPlaces, address_of
from prospect.symbols.kernel.kernel_names import KernelNames, load_kernel
from prospect.symbols.naming_options import SymbolOptions
from prospect.symbols.objects import Missing, ObjectKey
from prospect.symbols.table_cache import SymbolCache

ID, OTHER_ID = b"\x11" * 20, b"\x22" * 20
TEXT = 0xFFFFFFFF81000000
RELEASE = os.uname().release
HERE = SymbolOptions(kernel_release=RELEASE, kernel_build_id=ID)
ELSEWHERE = SymbolOptions(kernel_release="6.1.0-99-amd64", kernel_build_id=OTHER_ID)


def listing(text: int = TEXT, functions: int = 40, stride: int = 64, module: str = "") -> bytes:
    rows = [(text, "_text"), *((text + stride * n, f"function_{n}") for n in range(1, functions))]
    rows.append((text + stride * functions, "_etext"))
    lines = "".join(f"{address:016x} T {name}\n" for address, name in rows)
    return (lines + module).encode()


def vmlinux(build_id: bytes | None = ID, text: int = TEXT) -> bytes:
    symbols = [
        Symbol("_text", text),
        *(Symbol(f"function_{n}", text + 64 * n, 64) for n in range(1, 40)),
    ]
    symbols.append(Symbol("_etext", text + 64 * 40))
    return elf_file(sections=[code(address=text)], symbols=symbols, build_id=build_id)


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KernelPlaces:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(image_files, "DEBUG_ROOT", os.fsencode(tmp_path / "usr/lib/debug"))
    (tmp_path / "notes").write_bytes(build_id_note(ID))
    (tmp_path / "modules").write_text("")
    write(tmp_path / "kallsyms", listing(module="ffffffffc0000000 t mine\t[module]\n"))
    return KernelPlaces(
        kallsyms=str(tmp_path / "kallsyms"),
        notes=str(tmp_path / "notes"),
        modules=str(tmp_path / "modules"),
        root=str(tmp_path),
    )


def write(path: Path, content: bytes) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return str(path)


def hide(places: KernelPlaces) -> None:
    Path(places.kallsyms).write_bytes(b"0000000000000000 T _text\n0000000000000000 T function_1\n")


def refused(options: SymbolOptions, places: KernelPlaces) -> str:
    kernel = load_kernel(options, places)
    assert isinstance(kernel, Missing)
    assert kernel.reason == NameSource.NO_KERNEL_SYMBOLS
    return kernel.note


def source(kernel: KernelNames | Missing) -> int:
    assert isinstance(kernel, KernelNames), kernel
    return int(kernel.table.source[0])


def test_the_running_kernel_names_itself_with_its_modules(places: KernelPlaces) -> None:
    kernel = load_kernel(HERE, places)
    assert source(kernel) == NameSource.KALLSYMS
    assert (kernel.shift, kernel.has_modules, kernel.is_placed) == (0, True, True)


def test_without_build_ids_release_and_host_decide(places: KernelPlaces) -> None:
    known = replace(HERE, kernel_build_id=b"", hostname=os.uname().nodename)
    assert source(load_kernel(known, places)) == NameSource.KALLSYMS
    assert "is not the running one" in refused(replace(known, hostname="elsewhere"), places)
    assert "is not the running one" in refused(replace(known, kernel_release="5.0"), places)


def test_hidden_addresses_are_said_to_be(places: KernelPlaces) -> None:
    hide(places)
    assert "kptr_restrict" in refused(HERE, places)


def test_after_another_boot_the_distance_is_known_and_modules_are_not(places: KernelPlaces) -> None:
    kernel = load_kernel(replace(HERE, kernel_text=TEXT + 0x200000), places)
    assert isinstance(kernel, KernelNames)
    assert (kernel.shift, kernel.has_modules) == (0x200000, False)


def test_the_distance_may_be_backwards(places: KernelPlaces) -> None:
    kernel = load_kernel(replace(HERE, kernel_text=TEXT - 0x200000), places)
    assert kernel.shift == 2**64 - 0x200000


def test_another_kernel_without_any_listing_has_no_names(places: KernelPlaces) -> None:
    note = refused(ELSEWHERE, places)
    assert "6.1.0-99-amd64" in note
    assert "-K" in note


def test_kept_listings_are_taken_in_order_of_trust(places: KernelPlaces, tmp_path: Path) -> None:
    release, digits = ELSEWHERE.kernel_release, OTHER_ID.hex()
    options = replace(ELSEWHERE, kernel_text=TEXT)
    write(tmp_path / f"boot/System.map-{release}", listing())
    assert source(load_kernel(options, places)) == NameSource.SYSTEM_MAP
    write(tmp_path / f"usr/lib/debug/boot/vmlinux-{release}", vmlinux(OTHER_ID))
    assert source(load_kernel(options, places)) == NameSource.SYMTAB
    cached = tmp_path / "home/.debug/.build-id" / digits[:2] / digits[2:] / "kallsyms"
    write(cached, listing())
    assert source(load_kernel(options, places)) == NameSource.KALLSYMS


def test_an_image_of_the_release_but_another_build_is_not_taken(
    places: KernelPlaces, tmp_path: Path
) -> None:
    write(tmp_path / f"boot/vmlinux-{ELSEWHERE.kernel_release}", vmlinux(ID))
    refused(ELSEWHERE, places)


def test_a_system_map_that_only_points_elsewhere_is_not_taken(
    places: KernelPlaces, tmp_path: Path
) -> None:
    text = b"The real System.map is in the linux-image-<version>-dbg package\n"
    write(tmp_path / f"boot/System.map-{ELSEWHERE.kernel_release}", text)
    refused(ELSEWHERE, places)


def test_a_release_does_not_lead_out_of_its_directory(places: KernelPlaces, tmp_path: Path) -> None:
    (tmp_path / "boot/System.map-x").mkdir(parents=True)
    write(tmp_path / "elsewhere", listing())
    refused(replace(ELSEWHERE, kernel_release="x/../../elsewhere"), places)


class TestGivenSystemMap:
    def test_the_right_one_is_used_where_the_kernel_stands(
        self, places: KernelPlaces, tmp_path: Path
    ) -> None:
        path = write(tmp_path / "map", listing(TEXT - 0x400000))
        kernel = load_kernel(replace(HERE, system_map=path), places)
        assert source(kernel) == NameSource.SYSTEM_MAP
        assert kernel.shift == 0x400000
        assert kernel.note == ""

    def test_one_of_another_build_is_refused_and_nothing_else_is_used(
        self, places: KernelPlaces, tmp_path: Path
    ) -> None:
        path = write(tmp_path / "map", listing(stride=80))
        note = refused(replace(HERE, system_map=path), places)
        assert path in note
        assert "not where the running kernel has them" in note

    @pytest.mark.parametrize("content", [b"", b"\x7fELF junk", b"nonsense\n" * 50])
    def test_what_is_none_is_refused(
        self, places: KernelPlaces, tmp_path: Path, content: bytes
    ) -> None:
        path = write(tmp_path / "map", content)
        assert "cannot be read as a System.map" in refused(replace(HERE, system_map=path), places)

    def test_a_missing_file_is_refused(self, places: KernelPlaces) -> None:
        assert "cannot be read" in refused(replace(HERE, system_map="/none"), places)

    def test_one_that_cannot_be_compared_is_used_and_said_to_be(
        self, places: KernelPlaces, tmp_path: Path
    ) -> None:
        hide(places)
        path = write(tmp_path / "map", listing())
        kernel = load_kernel(replace(HERE, system_map=path), places)
        assert isinstance(kernel, KernelNames)
        assert not kernel.is_placed
        assert "could not be compared" in kernel.note


class TestGivenBoth:
    def test_the_one_that_fits_is_used_and_the_other_named(
        self, places: KernelPlaces, tmp_path: Path
    ) -> None:
        good, bad = write(tmp_path / "vmlinux", vmlinux()), write(tmp_path / "map", b"no map")
        kernel = load_kernel(replace(HERE, system_map=bad, kernel_image=good), places)
        assert source(kernel) == NameSource.SYMTAB
        assert "map, given with -K, is refused" in kernel.note

    def test_two_that_do_not_fit_are_both_refused(
        self, places: KernelPlaces, tmp_path: Path
    ) -> None:
        image, listing_ = write(tmp_path / "v", vmlinux(OTHER_ID)), write(tmp_path / "m", b"no map")
        note = refused(replace(HERE, system_map=listing_, kernel_image=image), places)
        assert note.count("is refused") == 2


class TestGivenImage:
    def test_the_right_one_is_used(self, places: KernelPlaces, tmp_path: Path) -> None:
        path = write(tmp_path / "vmlinux", vmlinux())
        kernel = load_kernel(replace(HERE, kernel_image=path), places)
        assert source(kernel) == NameSource.SYMTAB
        assert kernel.note == ""

    def test_another_build_id_is_refused(self, places: KernelPlaces, tmp_path: Path) -> None:
        path = write(tmp_path / "vmlinux", vmlinux(OTHER_ID))
        assert "build id" in refused(replace(HERE, kernel_image=path), places)

    def test_without_a_build_id_its_symbols_are_compared(
        self, places: KernelPlaces, tmp_path: Path
    ) -> None:
        path = write(tmp_path / "vmlinux", vmlinux(None))
        assert isinstance(load_kernel(replace(HERE, kernel_image=path), places), KernelNames)
        Path(places.kallsyms).write_bytes(listing(stride=48))
        assert "not where" in refused(replace(HERE, kernel_image=path), places)

    def test_a_compressed_image_is_refused(self, places: KernelPlaces, tmp_path: Path) -> None:
        path = write(tmp_path / "bzImage", b"MZ" + bytes(100))
        assert "uncompressed" in refused(replace(HERE, kernel_image=path), places)

    def test_an_image_of_which_only_bounds_are_known_is_refused(self, places: KernelPlaces) -> None:
        sections = [code(address=TEXT), *frame_sections([(TEXT, 64)], encoding=0x04)]
        path = write(Path(places.root) / "vmlinux", elf_file(sections=sections, build_id=ID))
        assert "uncompressed" in refused(replace(HERE, kernel_image=path), places)


def test_a_listing_is_kept_until_the_modules_change(places: KernelPlaces, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir(0o700)
    cache = SymbolCache(tmp_path / "cache" / "prospect")
    assert not load_kernel(HERE, places, cache).is_kept
    kept = load_kernel(HERE, places, cache)
    assert kept.is_kept
    assert kept.table.names(range(3)) == load_kernel(HERE, places).table.names(range(3))
    Path(places.modules).write_text("module 4096 0 - Live 0xffffffffc0000000\n")
    assert not load_kernel(HERE, places, cache).is_kept
    # Somebody uses it now.
    Path(places.modules).write_text("module 4096 2 user, Live 0xffffffffc0000000\n")
    assert load_kernel(HERE, places, cache).is_kept


def test_a_module_that_is_loaded_while_one_looks_has_names(places: KernelPlaces) -> None:
    kept, key = KeptNames(1 << 19, 1 << 22), ObjectKey(b"[kernel.kallsyms]", kind=KIND_KERNEL)
    address = np.array([TEXT + 64, 0xFFFFFFFFC0100000], np.uint64)

    def names() -> list[str]:
        return CachingSymbolizer(kept, HERE, places).resolve(key, (), address).named.name

    assert names() == ["function_1"]
    module = "ffffffffc0100000 t late\t[loaded]\n"
    Path(places.kallsyms).write_bytes(listing(module=module))
    assert names() == ["function_1"]  # the listing is read again only where modules are new
    Path(places.modules).write_text("loaded 4096 0 - Live 0xffffffffc0100000\n")
    assert names() == ["function_1", "late"]
    Path(places.kallsyms).write_bytes(listing())
    Path(places.modules).write_text("")
    assert names() == ["function_1", "late"]


def test_a_symbol_is_found_by_its_whole_name(places: KernelPlaces) -> None:
    table = load_kernel(HERE, places).table
    assert address_of(table, b"_text") == TEXT
    assert address_of(table, b"function_1") == TEXT + 64
    assert address_of(table, b"unction_1") is None
    assert address_of(table, b"mine") == 0xFFFFFFFFC0000000
    row = int(table.lookup(np.array([TEXT], np.uint64))[0])
    assert table.name(row) == b"_text"
