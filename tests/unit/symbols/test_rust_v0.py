import pytest

from prospect.symbols.demangling.rust_names import demangle_v0


@pytest.mark.parametrize(
    ("mangled", "text"),
    [
        ("_RNvC1a4main", "a::main"),
        ("_RNvCs_1a4main", "a::main"),
        ("_RNCNvC1a4main0", "a::main::{closure#0}"),
        ("_RNCNvC1a4mains_0", "a::main::{closure#1}"),
        ("_RNCNvC1a4main3foo", "a::main::{closure:foo#0}"),
        ("_RNSNvC1a4main0", "a::main::{shim#0}"),
        ("_RINvC1a3fooNtC1a3BarE", "a::foo::<a::Bar>"),
        ("_RINvC1a3fooINtC1a3BarhEE", "a::foo::<a::Bar<u8>>"),
        ("_RNvMC1aNtC1a3Bar3new", "<a::Bar>::new"),
        ("_RNvXC1aNtC1a3BarNtC1a5Trait3new", "<a::Bar as a::Trait>::new"),
        ("_RNvYNtC1a3BarNtC1a5Trait3new", "<a::Bar as a::Trait>::new"),
        ("_RINvC1a1fReQlPhOxE", "a::f::<&str, &mut i32, *const u8, *mut i64>"),
        ("_RINvC1a1fShAhj4_TEThETheEE", "a::f::<[u8], [u8; 4], (), (u8,), (u8, str)>"),
        ("_RINvC1a1fFEuE", "a::f::<fn()>"),
        ("_RINvC1a1fFUKChEzE", 'a::f::<unsafe extern "C" fn(u8) -> !>'),
        ("_RINvC1a1fFK15system_unwindedEuE", 'a::f::<extern "system-unwinded" fn()>'),
        ("_RINvC1a1fFG_RL0_hEuE", "a::f::<for<'a> fn(&'a u8)>"),
        ("_RINvC1a1fDNtC1a1TEL_E", "a::f::<dyn a::T>"),
        ("_RINvC1a1fDNtC1a1TNtC1a4SendEL_E", "a::f::<dyn a::T + a::Send>"),
        ("_RINvC1a1fDINtC1a2FnThEEp6OutputhEL_E", "a::f::<dyn a::Fn<(u8,), Output = u8>>"),
        ("_RINvC1a1fDNtC1a1Tp1AhEL_E", "a::f::<dyn a::T<A = u8>>"),
        ("_RINvC1a1fL_E", "a::f::<'_>"),
        ("_RINvC1a1fKj1f_Kin7_Kb1_Kc41_KpE", "a::f::<31, -7, true, 'A', _>"),
        ("_RINvC1a1fKo10000000000000000_E", "a::f::<0x10000000000000000>"),
        ("_RINvC1a1fhBa_E", None),
        ("_RINvC1a1fThEB7_E", "a::f::<(u8,), (u8,)>"),
        ("_RNvC1au9gre_6ka8i", "a::größe"),
        ("_RNvC1a4mainC1b", "a::main"),
        ("_RNvC1a4main.llvm.1234", "a::main"),
        ("_RNvC1a4main.cold", "a::main.cold"),
        ("_RNvC1a9main", None),
        ("_RNvC1a4mainX", None),
        ("_RNvB9_4main", None),
        ("_RINvC1a1fRL0_hE", None),
        ("_RINvC1a1fKj_E", None),
        ("_RINvC1a1fFGzzzzzz_uEuE", None),
        ("_RNvC1a4größe", None),
        ("_R", None),
        ("main", None),
    ],
)
def test_grammar(mangled, text):
    assert demangle_v0(mangled) == text
