from builders.profile import empty_profile, qsort_profile
from builders.profile_builder import ProfileBuilder
from prospect.figures.modes import event_hits
from prospect.figures.report.symbol_quality import symbol_quality
from prospect.profile.model import KIND_ANON
from prospect.profile.naming import NameSource


def test_hits_are_counted_by_where_their_names_came_from():
    profile = qsort_profile()
    quality = symbol_quality(profile, event_hits(profile, 0))
    assert {entry.source: entry.hits for entry in quality.sources} == {
        NameSource.KALLSYMS: 622,
        NameSource.BRACKET: 223,
        NameSource.SYMTAB: 159,
        NameSource.DYNSYM: 5,
        NameSource.NO_COVER: 5,
    }
    assert quality.hits == 1014
    assert quality.named_hits == 1009
    assert sum(entry.share for entry in quality.sources) == 1.0


def test_reasons_come_last_and_name_the_objects_with_most_hits():
    build = ProfileBuilder()
    process = build.process("p", 1)
    for number in range(7):
        where = build.object(f"/stripped{number}")
        function = build.function("", where, 0, source=NameSource.NO_STRIPPED)
        build.hit(process, function, 10 + number)
    build.hit(process, build.function("f", build.object("/good"), 0), 1)
    profile = build.build()
    quality = symbol_quality(profile, event_hits(profile, 0))
    assert [entry.source for entry in quality.sources] == [
        NameSource.SYMTAB,
        NameSource.NO_STRIPPED,
    ]
    stripped = quality.sources[1]
    assert [found.hits for found in stripped.objects] == [16, 15, 14, 13, 12]
    assert profile.objects.path[stripped.objects[0].object_index] == "/stripped6"
    assert stripped.objects_left_out == 2
    assert quality.sources[0].objects == ()


def test_no_hits_have_no_sources():
    profile = empty_profile()
    assert symbol_quality(profile, event_hits(profile, 0)).sources == ()


def test_anonymous_memory_is_shown_by_process():
    build = ProfileBuilder()
    where = build.object("//anon", kind=KIND_ANON)
    function = build.function("", where, 0, source=NameSource.NO_ANONYMOUS)
    processes = [build.process("node", 7), build.process("java", 9)]
    for process, hits in zip(processes, (3, 5), strict=True):
        build.hit(process, function, hits)
    profile = build.build()
    quality = symbol_quality(profile, event_hits(profile, 0))
    (anonymous,) = quality.sources
    assert [(found.process_index, found.hits) for found in anonymous.objects] == [(1, 5), (0, 3)]
