"""Any answer of GDB is read into rows that cover the code once, or refused."""

from hypothesis import given
from hypothesis import strategies as st

from prospect.disasm.gdb import error_of, rows_of

PARTS = st.sampled_from(
    [
        b"done,asm_insns=[",
        b'{address="0x1000",opcodes="55",inst="push"}',
        b'{address="0x1001",func-name="f",offset="1",opcodes="48 89",inst="mov \\t"}',
        b'{address="0x1003",opcodes="9090",inst="\\',
        b'opcodes="',
        b'address="0xffffffffffffffffffff"',
        b'inst="\\777\\0"',
        b'",',
        b"]",
    ]
)


@given(st.lists(st.one_of(PARTS, st.binary(max_size=12)), max_size=8), st.binary(max_size=6))
def test_any_answer(parts, content):
    record = b"".join(parts)
    rows = rows_of(record, content, 0x1000)
    if rows is not None:
        expected = 0x1000
        for address, size, text, _, _ in rows:
            assert address == expected
            assert size > 0
            assert isinstance(text, str)
            expected += size
        assert expected == 0x1000 + len(content)
    assert isinstance(error_of(record), str)
