"""A store in a browser: who may ask, the time axis, pages of spans, and comparisons."""

from __future__ import annotations

import re
from email.message import Message
from html import unescape

import pytest

from builders.hostile_names import with_hostile_names
from builders.stacks import stacks_profile
from builders.stored import BEGIN_S, US, fill, window_at
from prospect.assembly.code.code import code_of_report
from prospect.errors import StoreError
from prospect.options import DisassemblerOptions, NamingOptions
from prospect.render.html import HtmlRenderer
from prospect.store.windows import Span, window_of
from prospect.web.store_site import ShownStore, StoreSite

pytest.importorskip("duckdb")
TOKEN = "a-token"


def site_of(path, *words):
    code = code_of_report(DisassemblerOptions(gdb_processes=1))
    shown = ShownStore(str(path), list(words), HtmlRenderer(), NamingOptions(), code)
    return StoreSite(shown, TOKEN)


@pytest.fixture(name="site")
def _site(tmp_path):
    fill(tmp_path / "s", [window_at(minute) for minute in range(4)])
    return site_of(tmp_path / "s")


def asked(site, address, host="127.0.0.1:1"):
    headers = Message()
    headers["Host"] = host
    return site.answer(f"/{TOKEN}/{address}", headers)


def page(site, address):
    found = asked(site, address)
    assert found.status == 200
    return found.body.decode()


def links(shown):
    return [unescape(one) for one in re.findall(r'href="([^"]*)"', shown)]


def test_two_clicks_choose_a_span_whose_page_follows(site):
    first = page(site, "")
    bars = [one for one in links(first) if one.startswith("?begin=")]
    assert bars == [f"?begin={BEGIN_S + 60 * minute}" for minute in range(4)]
    second = page(site, bars[0])
    assert "click where the span ends" in second
    ends = [one for one in links(second) if one.startswith("?span=")]
    third = page(site, ends[1])
    address = f"part/{BEGIN_S}_{BEGIN_S + 120}/"
    assert address in links(third)
    assert page(site, address).startswith("<!DOCTYPE html>")
    report = page(site, f"{address}data/report")
    assert '"samples":60' in report.replace(" ", "")
    for name in ("data/stacks", "data/source", "part?event=0"):
        assert asked(site, address + name).status == 200


def test_a_window_that_came_late_is_drawn_and_chosen_as_long_as_it_is(tmp_path):
    late = Span((BEGIN_S + 60) * US, (BEGIN_S + 600) * US)
    fill(tmp_path / "s", [window_at(0), window_of(stacks_profile(), late), window_at(10)])
    site = site_of(tmp_path / "s")
    first = page(site, "")
    widths = [float(one) for one in re.findall(r'class="all"[^>]* width="([\d.]+)"', first)]
    assert widths == [pytest.approx(part * sum(widths) / 11, abs=0.2) for part in (1, 9, 1)]
    assert ["for 9 min:" in one for one in re.findall("<title>[^<]*busy", first)] == [
        False,
        True,
        False,
    ]
    second = page(site, f"?begin={BEGIN_S + 60}")
    assert f"?span={BEGIN_S}_{BEGIN_S + 600}" in links(second)


def test_two_spans_are_compared(site):
    spans = [f"{BEGIN_S + 120 * nth}_{BEGIN_S + 120 * nth + 120}" for nth in range(2)]
    kept = page(site, f"?span={spans[1]}&other={spans[0]}")
    address = f"diff/{spans[0]}/{spans[1]}/"
    assert address in links(kept)
    assert page(site, address).startswith("<!DOCTYPE html>")


def test_a_part_can_be_looked_at_closely(site):
    span = f"{BEGIN_S + 60}_{BEGIN_S + 120}"
    shown = page(site, f"?view={span}")
    assert len([one for one in links(shown) if "begin=" in one]) == 1
    assert "?" in links(shown)  # all of it


def test_only_whoever_knows_the_token_is_answered(site):
    assert asked(site, "", host="example.org").status == 403
    headers = Message()
    headers["Host"] = "localhost"
    assert site.answer("/another/", headers).status == 404


@pytest.mark.parametrize(
    "address",
    ["?begin=x", "?span=2_1", "?span=1_99999999999999999", "?what=1", "part/1_x/", "diff/1_2/"],
)
def test_what_means_nothing_is_refused(site, address):
    assert asked(site, address).status == 400


@pytest.mark.parametrize("address", ["part/1_2", "else", "part/1795356300_1795356360/else"])
def test_what_is_not_there_is_not_found(site, address):
    assert asked(site, address).status == 404


def test_a_span_with_nothing_in_it_says_so(site):
    assert "nothing matches" in page(site, "part/1000_2000/")
    assert "nothing matches" in page(site, "diff/1000_2000/3000_4000/")
    assert "nothing matches" in page(site, "?view=1000_2000")


def test_names_stay_text(tmp_path):
    fill(tmp_path / "<b>s", [window_at(0, with_hostile_names(stacks_profile()))])
    site = site_of(tmp_path / "<b>s", "comm:*,<script>")
    shown = page(site, "")
    assert "<b>" not in shown
    assert "<script" not in shown
    assert "default-src 'none'" in shown


def test_what_cannot_be_read_is_said_at_once(tmp_path):
    with pytest.raises(StoreError, match="no store"):
        site_of(tmp_path / "none")
