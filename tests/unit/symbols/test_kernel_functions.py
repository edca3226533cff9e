import numpy as np
import pytest

from prospect.events.record_columns import KernelSymbols
from prospect.profile.model import KIND_BPF, KIND_KERNEL, KIND_MODULE
from prospect.profile.naming import NameSource
from prospect.symbols.kernel.kernel_listings import parse_kallsyms
from prospect.symbols.kernel.kernel_names import (
    KernelNames,
    is_outdated,
    kernel_symbol_table,
    name_kernel,
)
from prospect.symbols.objects import Missing
from prospect.symbols.resolution import Resolution

TEXT = 0xFFFFFFFF81000000
MODULE = 0xFFFFFFFFC0100000
PROGRAM = 0xFFFFFFFFC0300000
LISTING = (
    f"{TEXT:x} T _text\n{TEXT + 64:x} t do_work\n{TEXT + 64:x} T alias_of_it\n"
    f"{TEXT + 4096:x} T _etext\n"
    f"{MODULE:x} t nft_eval\t[nf_tables]\n{PROGRAM:x} t bpf_prog_aa_old\t[bpf]\n"
).encode()
NONE = kernel_symbol_table(None, ())


def kernel(**changes: object) -> KernelNames:
    names = KernelNames(parse_kallsyms(LISTING), 0, has_modules=True, is_placed=True)
    return names._replace(**changes)


def records(*rows: tuple[int, int, bool, int]) -> KernelSymbols:
    address, length, unregister, name = zip(*rows, strict=True)
    count = len(rows)
    return KernelSymbols(
        order=np.arange(count),
        time_ns=np.arange(count, dtype=np.uint64),
        address=np.array(address, np.uint64),
        length=np.array(length, np.uint64),
        kind=np.ones(count, np.uint8),
        unregister=np.array(unregister, np.bool_),
        name=np.array(name, np.int32),
    )


def name(found: Resolution, *addresses: int) -> list[tuple[str, str] | NameSource]:
    named = found.named
    assert named.address.tolist() == list(addresses)
    return [
        (named.name[row], named.object_path[row]) if row >= 0 else NameSource(reason)
        for row, reason in zip(named.function.tolist(), named.reason.tolist(), strict=True)
    ]


def resolve(names: KernelNames | Missing, *addresses: int, loaded=NONE) -> list:
    return name(name_kernel("[k]", names, loaded, np.array(addresses, np.uint64)), *addresses)


def test_functions_belong_to_the_kernel_a_module_or_a_program() -> None:
    found = name_kernel("[k]", kernel(), NONE, np.array([PROGRAM, TEXT + 70, MODULE], np.uint64))
    assert name(found, PROGRAM, TEXT + 70, MODULE) == [
        ("bpf_prog_aa_old", "bpf_prog_aa_old"),
        ("alias_of_it", "[k]"),
        ("nft_eval", "[nf_tables]"),
    ]
    assert found.kind == KIND_KERNEL
    assert found.part_kinds == {"[nf_tables]": KIND_MODULE, "bpf_prog_aa_old": KIND_BPF}
    row = found.named.name.index("alias_of_it")
    assert found.named.aliases[row] == ("do_work",)
    assert found.named.function_address[row] == TEXT + 64


def test_each_function_stands_once_however_many_addresses_are_in_it() -> None:
    found = name_kernel(
        "[k]", kernel(), NONE, np.array([TEXT + 65, TEXT + 66, TEXT + 64], np.uint64)
    )
    assert found.named.name == ["alias_of_it"]


def test_a_shifted_kernel_is_named_at_its_recorded_addresses() -> None:
    moved = kernel(shift=0x200000, has_modules=False)
    address = np.array([TEXT + 0x200000 + 70, MODULE + 0x200000], np.uint64)
    found = name_kernel("[k]", moved, NONE, address)
    assert name(found, *address.tolist()) == [("alias_of_it", "[k]"), NameSource.NO_KERNEL_SYMBOLS]
    assert found.named.function_address.tolist() == [TEXT + 0x200000 + 64]


def test_what_no_symbol_covers_says_so() -> None:
    assert resolve(kernel(), MODULE - 4096) == [NameSource.NO_COVER]


def test_without_a_listing_every_address_has_the_reason() -> None:
    missing = Missing(NameSource.NO_KERNEL_SYMBOLS, "hidden")
    assert resolve(missing, TEXT, 5) == [NameSource.NO_KERNEL_SYMBOLS] * 2


def test_a_listing_of_unknown_place_is_given_up_if_most_hits_miss_it() -> None:
    unplaced = kernel(is_placed=False, has_modules=False)
    assert resolve(unplaced, TEXT + 1, 5, 6) == [NameSource.NO_KERNEL_SYMBOLS] * 3
    assert resolve(unplaced, TEXT + 1, TEXT + 2, 6)[0] == ("_text", "[k]")


@pytest.mark.parametrize("names", [kernel(), Missing(NameSource.NO_KERNEL_SYMBOLS, "hidden")])
def test_records_of_the_recording_win_over_the_listing(names: KernelNames | Missing) -> None:
    loaded = kernel_symbol_table(records((PROGRAM, 32, False, 1)), [b"", b"bpf_prog_bb_new"])
    found = resolve(names, PROGRAM + 31, loaded=loaded)
    assert found == [("bpf_prog_bb_new", "bpf_prog_bb_new")]


def test_of_programs_at_one_address_the_last_one_names_it() -> None:
    names = [b"first", b"second"]
    loaded = kernel_symbol_table(
        records((PROGRAM, 64, False, 0), (PROGRAM, 64, True, 0), (PROGRAM, 32, False, 1)), names
    )
    found = resolve(kernel(), PROGRAM, PROGRAM + 40, loaded=loaded)
    assert found == [("second", "second"), ("first", "first")]


def test_a_program_is_known_by_its_unloading_alone() -> None:
    loaded = kernel_symbol_table(records((PROGRAM, 64, True, 0)), [b"gone"])
    assert resolve(kernel(), PROGRAM + 1, loaded=loaded) == [("gone", "gone")]


def test_a_length_beyond_all_addresses_is_cut() -> None:
    loaded = kernel_symbol_table(records((2**64 - 16, 2**63, False, 0)), [b"top"])
    assert resolve(kernel(), 2**64 - 2, loaded=loaded) == [("top", "top")]


@pytest.mark.parametrize(
    ("address", "outdated"),
    [(TEXT + 70, False), (MODULE, False), (PROGRAM, True), (MODULE - 4096, True)],
)
def test_a_kept_listing_is_not_believed_about_what_comes_and_goes(
    address: int, outdated: bool
) -> None:
    hits = np.array([address], np.uint64)
    assert is_outdated(kernel(is_kept=True), NONE, hits) == outdated
    assert not is_outdated(kernel(), NONE, hits)
