import pytest

from builders.profile import qsort_profile, rowless_profile
from prospect.errors import RenderError
from prospect.figures.modes import event_hits
from prospect.figures.report.function_profiles import check_sum, kernel_profiles
from prospect.profile.complete import complete
from prospect.records import replace


def _kernel(profile):
    profile = complete(profile)
    return kernel_profiles(profile.processes, event_hits(profile, 0), 0.02)


def test_the_whole_is_the_sum_of_its_parts():
    kernel = _kernel(qsort_profile())
    assert [(name, table.total_hits) for name, table in kernel.parts] == [
        ("kernel threads", 2),
        ("user processes", 9),
        ("process zero", 611),
    ]
    assert kernel.whole.total_hits == 622


def test_hits_without_a_process_are_a_part_of_their_own():
    kernel = _kernel(rowless_profile())
    assert kernel.parts[-1][0] == "no process"
    assert sum(table.total_hits for _, table in kernel.parts) == kernel.whole.total_hits


def test_parts_that_do_not_sum_up_are_refused():
    kernel = _kernel(qsort_profile())
    tables = [table for _, table in kernel.parts]
    with pytest.raises(RenderError, match="do not sum up"):
        check_sum(kernel.whole, tables[:-1])
    swapped = replace(tables[0], function=tables[0].function + 1)
    with pytest.raises(RenderError, match="do not sum up"):
        check_sum(kernel.whole, [swapped, *tables[1:]])
