"""Instructions on a page: what they have of any selection is what their samples say."""

from collections import Counter

import numpy as np
import pytest

from builders.annotated import annotated_loop, sampled_loop
from builders.pages import report_of
from prospect.figures.stacks.stack_weights import stack_samples
from prospect.records import replace
from prospect.render.html import cells as cells_module
from prospect.render.html import instructions as instructions_module
from prospect.render.html.cells import Selection, event_parts, sample_cells, stack_names
from prospect.render.html.instructions import code_cells, code_fields, instruction_slots


def made(profile):
    names = stack_names(stack_samples(profile, "4"))
    slots = instruction_slots(names, profile.code)
    cells = sample_cells(names, 0)
    return names, slots, cells, code_cells(names, 0, slots, cells)


def expected(profile, chosen):
    """Hits by name and address of the functions with code, of chosen samples; None between."""
    found = Counter()
    code, locations = profile.code, profile.locations
    location = profile.hits.location_index.take(profile.samples.hit_index[chosen])
    for place, count in zip(*np.unique(location, return_counts=True), strict=True):
        function, address = int(locations.function_index[place]), int(locations.address[place])
        if function in code.function_index:
            is_first_byte = address in code.address
            found[profile.functions.name[function], address if is_first_byte else None] += count
    return found


def by_slot(names, slots):
    """Return of each slot the name of the function, and the address or None, as the page has it."""
    return [
        (function["name"], int(fields[0]) if fields else None)
        for function in code_fields(names, slots)["functions"]
        for fields in function["instructions"]
    ]


def counted(names, slots, found, chosen):
    keys, hits = by_slot(names, slots), Counter()
    for slot, count in zip(found.slot[chosen].tolist(), found.count[chosen].tolist(), strict=True):
        hits[keys[slot]] += count
    return hits


@pytest.mark.parametrize("span", [(0, 127), (3, 3), (20, 90), (0, 0), (100, 127)])
def test_a_stretch_of_time_has_the_hits_of_its_samples(span):
    profile = sampled_loop()
    names, slots, cells, found = made(profile)
    assert cells.stretches == 128
    first, last = (int(np.ceil(at * names.end_ns / 128)) for at in (span[0], span[1] + 1))
    times = names.samples.time_ns
    chosen = (times >= first) & (times < last)
    is_in = (found.stretch >= span[0]) & (found.stretch <= span[1])
    hits = counted(names, slots, found, is_in)
    assert hits == expected(profile, chosen)
    assert hits["work", None] > 0 or span[0] == span[1]


def test_circumstances_are_those_of_the_samples():
    profile = sampled_loop()
    names, slots, cells, found = made(profile)
    threads = names.threads
    for cpu, process in ((1, 0), (3, 1)):
        is_in = cells.contexts.cpu.take(found.context) == cpu
        is_in &= threads.process_index.take(cells.contexts.thread.take(found.context)) == process
        chosen = profile.samples.cpu == cpu
        chosen &= profile.hits.process_index.take(profile.samples.hit_index) == process
        assert counted(names, slots, found, is_in) == expected(profile, chosen)


def test_times_are_those_of_the_samples():
    profile = sampled_loop(period=True)
    _, slots, _, found = made(profile)
    event = profile.run.events[0]
    period = profile.samples.period[slots.of_sample >= 0].sum()
    assert found.time_ns.sum() == pytest.approx(period * event.seconds_per_period * 1e9, abs=3000)
    assert len(np.unique(found.time_ns // found.count)) > 10


def test_threads_and_stretches_are_put_together_as_those_of_the_samples(monkeypatch):
    profile = sampled_loop()
    monkeypatch.setattr(cells_module, "_THREADS", 2)
    monkeypatch.setattr(cells_module, "_MOST_CELLS", 800)
    names, slots, cells, found = made(profile)
    assert cells.stretches < 128
    others = np.flatnonzero(cells.contexts.thread == len(names.threads))
    assert 0 < len(others) < len(cells.contexts.thread)
    assert counted(names, slots, found, slice(None)) == expected(profile, slice(None))
    kept = np.setdiff1d(cells.contexts.thread, [len(names.threads)])
    is_other = ~np.isin(names.threads.thread_index, kept)
    hits = counted(names, slots, found, np.isin(found.context, others))
    assert hits == expected(profile, is_other)


def test_what_there_is_no_room_for_is_left_out_whole_and_the_hottest_stay(monkeypatch):
    profile = sampled_loop()
    _, slots, _, whole = made(profile)
    function = slots.code_row.take(whole.slot)
    sizes = np.bincount(function)
    hottest = int(np.bincount(function, whole.count).argmax())
    monkeypatch.setattr(instructions_module, "_MOST_CELLS", int(sizes[hottest]))
    _, _, _, found = made(profile)
    assert found.left_out == [row for row in range(len(profile.code)) if row != hottest]
    assert set(slots.code_row.take(found.slot).tolist()) == {hottest}
    assert found.count.sum() == whole.count[function == hottest].sum()
    monkeypatch.setattr(instructions_module, "_MOST_CELLS", int(sizes[hottest]) - 1)
    assert hottest in made(profile)[3].left_out


def test_a_profile_without_samples_has_its_hits():
    profile = annotated_loop()
    names, slots, _, found = made(profile)
    hits = counted(names, slots, found, slice(None))
    assert hits["work", 0x1005] == 60
    assert hits["work", None] == 1
    assert hits["compiled", None] == 12
    assert sum(hits.values()) == 120


@pytest.mark.parametrize(
    "selection",
    [
        Selection(),
        Selection(begin_ns=123_456, end_ns=600_000_001),
        Selection(begin_ns=500_000_000, scope="command", cpu=2),
        Selection(scope="process", process=1),
        Selection(thread=4),
        Selection(begin_ns=9, end_ns=3),
    ],
)
def test_a_server_counts_the_samples_of_a_selection(selection):
    profile = sampled_loop(period=True)
    names = stack_names(stack_samples(profile, "4"))
    work = profile.functions.name.index("work")
    found = event_parts(names, 0).at_addresses(work, selection)
    times, process = names.samples.time_ns, profile.hits.process_index
    chosen = times >= selection.begin_ns
    if selection.end_ns is not None:
        chosen &= times < selection.end_ns
    process = process.take(profile.samples.hit_index)
    if selection.scope != "all":
        chosen &= process == (selection.process if selection.scope == "process" else 0)
    if selection.cpu is not None:
        chosen &= profile.samples.cpu == selection.cpu
    if selection.thread is not None:
        chosen &= names.threads.thread_index == selection.thread
    location = profile.hits.location_index.take(profile.samples.hit_index)
    chosen &= profile.locations.function_index.take(location) == work
    address = profile.locations.address.take(location[chosen])
    assert dict(zip(found.address.tolist(), found.count.tolist(), strict=True)) == Counter(
        address.tolist()
    )
    seconds = profile.samples.period[chosen].sum() * profile.run.events[0].seconds_per_period
    assert found.time_ns.sum() == pytest.approx(seconds * 1e9, abs=10)
    assert found.address.tolist() == sorted(found.address.tolist())


def test_a_page_without_any_function_to_show_the_code_of_is_a_page():
    profile = sampled_loop()
    code = replace(
        profile.code,
        function_index=profile.code.function_index[:0],
        start=profile.code.start[:1],
        reason=[],
        address=profile.code.address[:0],
        size_bytes=profile.code.size_bytes[:0],
        text=[],
        flow=profile.code.flow[:0],
        target=profile.code.target[:0],
        target_name=[],
        lines=None,
    )
    report = report_of(replace(profile, code=code), "html", detail="4", disassemble=1)
    assert b'"instructions"' not in report
    assert report.endswith(b"</html>\n")
