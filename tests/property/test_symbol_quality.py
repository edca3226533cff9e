"""Symbol quality accounts for every hit: parts add up, and what has no name has an entry reason."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from builders.profile_builder import ProfileBuilder
from prospect.figures.modes import event_hits
from prospect.figures.report.symbol_quality import symbol_quality
from prospect.profile.naming import LABELS, REMEDIES, NameSource

ROWS = st.lists(
    st.tuples(st.sampled_from(NameSource), st.integers(0, 9), st.integers(1, 10**6)), max_size=60
)


@given(ROWS)
def test_sources_add_up_to_all_hits_and_entry_reasons_to_their_objects(rows):
    build = ProfileBuilder()
    process = build.process("p", 1)
    objects = [build.object(f"/object{number}") for number in range(10)]
    for address, (source, where, hits) in enumerate(rows):
        name = f"f{address}" if source.named else ""
        build.hit(process, build.function(name, objects[where], address, source=source), hits)
    profile = build.build()
    quality = symbol_quality(profile, event_hits(profile, 0))
    assert quality.hits == sum(hits for _, _, hits in rows)
    assert sum(entry.hits for entry in quality.sources) == quality.hits
    named = sum(hits for source, _, hits in rows if source.named)
    assert quality.named_hits == named
    assert {entry.source for entry in quality.sources} == {source for source, _, _ in rows}
    for entry in quality.sources:
        of_source = {where for source, where, _ in rows if source == entry.source}
        assert entry.hits == sum(hits for source, _, hits in rows if source == entry.source)
        if not entry.source.named:
            assert entry.objects
            assert len(entry.objects) + entry.objects_left_out == len(of_source)
        if not entry.objects_left_out and entry.objects:
            assert sum(found.hits for found in entry.objects) == entry.hits


def test_every_entry_reason_has_a_label_and_a_remedy():
    assert set(LABELS) == set(NameSource)
    assert {source for source in NameSource if not source.named} <= set(REMEDIES)
    assert all(text.strip() for text in (*LABELS.values(), *REMEDIES.values()))
