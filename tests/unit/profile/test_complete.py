import math

import numpy as np

from builders.profile import qsort_profile, rowless_profile
from builders.profile_builder import ProfileBuilder, run_info
from prospect.profile.complete import NO_OBJECT_PATH, NO_PROCESS_NAME, CompleteProfile, complete
from prospect.profile.naming import NameSource
from prospect.profile.run_info import EventInfo


def test_every_index_becomes_a_row():
    before = rowless_profile()
    profile = complete(before)
    assert profile.hits.process_index.min() >= 0
    assert profile.hits.location_index.min() >= 0
    assert profile.locations.function_index.min() >= 0
    assert profile.functions.object_index.min() >= 0
    assert profile.mappings.object_index.min() >= 0
    assert len(profile.hits) == len(before.hits)


def test_what_is_complete_says_so_and_stays_as_it_is():
    before = rowless_profile()
    assert not isinstance(before, CompleteProfile)
    profile = complete(before)
    assert isinstance(profile, CompleteProfile)
    assert complete(profile) is profile


def test_hits_without_a_row_go_to_one_that_says_so():
    profile = complete(rowless_profile())
    assert profile.processes.name[int(profile.hits.process_index[0])] == NO_PROCESS_NAME
    assert profile.objects.path[-1] == NO_OBJECT_PATH
    nowhere = int(profile.locations.function_index[profile.hits.location_index[1]])
    assert profile.functions.name[nowhere] == ""
    assert profile.functions.source[nowhere] == NameSource.NO_MAPPING
    assert profile.run.events


def test_column_types_are_kept():
    before, after = rowless_profile(), complete(rowless_profile())
    for table in ("processes", "objects", "functions", "locations", "mappings", "hits"):
        for name, column in vars(getattr(before, table)).items():
            if isinstance(column, np.ndarray):
                assert getattr(getattr(after, table), name).dtype == column.dtype, (table, name)


def test_a_whole_profile_gets_no_new_rows():
    before = qsort_profile()
    after = complete(before)
    for table in ("processes", "objects", "functions", "locations"):
        assert len(getattr(after, table)) == len(getattr(before, table))


def test_impossible_rates_count_as_none():
    events = tuple(EventInfo("e", rate, rate, rate) for rate in (math.nan, math.inf, -1.0))
    profile = complete(ProfileBuilder(run_info(events=events)).build())
    assert [event.seconds_per_hit for event in profile.run.events] == [0.0, 0.0, 0.0]
    assert [event.seconds_per_period for event in profile.run.events] == [0.0, 0.0, 0.0]
