import pytest

from builders import profile_builder
from prospect.foreign import stack_profile as foreign_stacks
from prospect.profile import builder
from prospect.profile.builder import no_clocks, no_samples
from prospect.records import asdict
from prospect.store import part, recorded


@pytest.mark.parametrize(
    ("made", "known"),
    [(no_samples, profile_builder.no_samples), (no_clocks, profile_builder.no_clocks)],
)
def test_tables_without_rows_have_the_types_of_those_with_rows(made, known):
    table, expected = asdict(made()), asdict(known())
    assert len(made()) == 0
    for name, column in expected.items():
        kind = None if column is None else column.dtype
        assert (None if table[name] is None else table[name].dtype) == kind, name


@pytest.mark.parametrize("module", [part, recorded, foreign_stacks])
def test_all_who_make_profiles_of_sums_make_the_same_tables(module):
    assert module.no_samples is builder.no_samples
    assert module.no_clocks is builder.no_clocks
