"""XML is what OProfile's schema allows, and has every hit that `-V` asks for."""

from __future__ import annotations

import numpy as np
import pytest

from builders.opreport_schema import by_symbol, read
from builders.pages import report_of
from builders.profile import (
    empty_profile,
    hostile_profile,
    perf_profile,
    qsort_profile,
    rowless_profile,
)
from builders.stacks import stacks_profile
from prospect.figures.processes import DETAILS, chosen_hits
from prospect.profile.complete import complete
from prospect.records import replace

PROFILES = {
    "empty": empty_profile(),
    "qsort": qsort_profile(),
    "hostile": hostile_profile(),
    "perf": perf_profile(),
    "rowless": rowless_profile(),
    "stacks": stacks_profile(),
}


def written(profile, detail="4"):
    return report_of(profile, "xml", detail=detail)


@pytest.mark.parametrize("detail", DETAILS)
@pytest.mark.parametrize("case", PROFILES)
def test_the_schema_allows_it_and_counts_add_up(case, detail):
    root = read(written(PROFILES[case], detail))
    whole = complete(PROFILES[case])

    def sums(elements, class_):
        counts = (one for element in elements for one in element.findall("count"))
        return sum(int(one.text) for one in counts if one.get("class") == class_)

    classes = {one.get("class") for one in root.iter("count")}
    for image in [*root.iter("binary"), *root.iter("module")]:
        for class_ in classes:
            assert sums([image], class_) == sums(image.findall("symbol"), class_)
    counts = root.findall("./binary/count") + root.findall("./binary/module/count")
    assert sum(int(one.text) for one in counts) in {
        int(whole.hits.count[chosen_hits(whole, one)].sum()) for one in DETAILS
    }


def test_a_binary_counts_its_own_image():
    """OProfile's bug 236: modules' samples are not in it, and it has no count without any."""
    binaries = {one.get("name"): one for one in read(written(qsort_profile())).iter("binary")}
    assert [one.text for one in binaries["qsort"].findall("count")] == ["156"]
    assert [one.text for one in binaries["swapper"].findall("count")] == []


def test_hits_stand_at_their_program_module_and_symbol():
    root = read(written(stacks_profile()))
    found = by_symbol(root)
    assert found["work", "work", "work"] == 8
    assert sum(found.values()) == 30
    assert [one.tag for one in root.find("setup")] == ["timersetup"]


def test_events_are_classes():
    profile = perf_profile()
    assert len(profile.run.events) > 1
    root = read(written(profile))
    classes = [one.get("name") for one in root.iter("class")]
    assert classes == [f"e{row}" for row in range(len(profile.run.events))]
    hits = complete(profile).hits
    of_event = np.bincount(hits.event, hits.count, len(classes)).astype(int).tolist()
    assert [sum(by_symbol(root, one).values()) for one in classes] == of_event


def test_what_is_no_character_of_xml_is_written_out():
    profile = stacks_profile()
    names = [f"{name}\x1b<&\"'\udcff" for name in profile.functions.name]
    root = read(written(replace(profile, functions=replace(profile.functions, name=names))))
    assert any(one.get("name").endswith("\\x1b<&\"'\\xff") for one in root.iter("symboldata"))


def test_golden(golden):
    golden("report/qsort_xml.xml", written(qsort_profile()))
