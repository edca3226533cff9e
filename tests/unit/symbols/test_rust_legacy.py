import pytest

from prospect.symbols.demangling.rust_names import demangle_legacy

HASH = "17h0123456789abcdef"


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (["main"], "main"),
        (["std", "rt", "lang_start"], "std::rt::lang_start"),
        (["_$LT$T$u20$as$u20$a..B$GT$", "f"], "<T as a::B>::f"),
        (["a", "_$u7b$$u7b$closure$u7d$$u7d$"], "a::{{closure}}"),
        (["_$RF$mut$u20$T", "f"], "&mut T::f"),
        (["a$SP$b$BP$c$C$$LP$d$RP$.e"], "a@b*c,(d).e"),
        (["Gr$uf6$$udf$e"], "Größe"),
        (["a$ZZ$b"], "a$ZZ$b"),
        (["a$u1b$b$udc80$"], "a$u1b$b$udc80$"),
    ],
)
def test_parts_are_joined_and_unescaped(parts, text):
    path = "".join(f"{len(part)}{part}" for part in parts)
    assert demangle_legacy(f"_ZN{path}{HASH}E") == text


@pytest.mark.parametrize(
    ("suffix", "shown"), [(".llvm.123AB", ""), (".cold.1", ".cold.1"), (".17", ".17")]
)
def test_suffixes_of_llvm_are_left_out(suffix, shown):
    assert demangle_legacy(f"_ZN4main{HASH}E{suffix}") == f"main{shown}"


@pytest.mark.parametrize(
    "name",
    [
        f"_ZN9main{HASH}E",
        f"_ZN99999main{HASH}E",
        f"_ZNmain{HASH}E",
        f"_ZN4main{HASH}",
        "_ZN4main17h0123456789abcdeE",
        "_ZN4main3fooE",
        "main",
        "",
    ],
)
def test_other_names_are_refused(name):
    assert demangle_legacy(name) is None
