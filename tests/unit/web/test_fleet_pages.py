"""Questions about all hosts in a browser: the answers of `prospect fleet`, of any span."""

from __future__ import annotations

import json
import re
from email.message import Message
from html import unescape

import pytest

from builders.fleet import NEW, Hit, canaries, fill_host, fleet_store
from builders.stored import BEGIN_S, fill, window_at
from prospect.assembly.code.code import code_of_report
from prospect.cli.main import main
from prospect.fleet.answers import QUESTIONS
from prospect.options import DisassemblerOptions, NamingOptions
from prospect.render.html import HtmlRenderer
from prospect.web.store_site import ShownStore, StoreSite

pytest.importorskip("duckdb")
TOKEN = "a-token"
SPAN = f"{BEGIN_S}_{BEGIN_S + 120}"


def site_of(path, *words):
    code = code_of_report(DisassemblerOptions(gdb_processes=1))
    shown = ShownStore(str(path), list(words), HtmlRenderer(), NamingOptions(), code)
    return StoreSite(shown, TOKEN)


@pytest.fixture(name="fleet", scope="module")
def _fleet(tmp_path_factory):
    return fleet_store(tmp_path_factory.mktemp("stores") / "fleet")


@pytest.fixture(name="site", scope="module")
def _site(fleet):
    return site_of(fleet)


def asked(site, address):
    headers = Message()
    headers["Host"] = "127.0.0.1:1"
    return site.answer(f"/{TOKEN}/{address}", headers)


def page(site, address):
    found = asked(site, address)
    assert found.status == 200
    return found.body.decode()


def links(text):
    return [unescape(one) for one in re.findall(r'href="([^"]*)"', text)]


def tables(text):
    """Return the text of each cell, by table and row."""
    return [
        [
            [
                unescape(re.sub("<[^>]*>", "", cell)).strip()
                for cell in re.findall(r"<td.*?</td>", row)
            ]
            for row in re.findall(r"<tr>(?=<td).*?</tr>", table)
        ]
        for table in re.findall(r"<tbody>.*?</tbody>", text)
    ]


def answer(capfd, fleet, *words):
    assert main(["fleet", *words, "--store", str(fleet), "--format", "json"]) == 0
    return json.loads(capfd.readouterr().out)


def test_the_time_axis_leads_to_every_question_of_its_span(site):
    assert [one for one in links(page(site, "")) if "fleet/" in one] == [
        f"fleet/{name}" for name in QUESTIONS
    ]
    of_span = [one for one in links(page(site, f"?span={SPAN}")) if "fleet/" in one]
    assert of_span == [f"fleet/{name}?span={SPAN}" for name in QUESTIONS]
    for address in of_span:
        assert f"../?span={SPAN}" in links(page(site, address))


def test_top_has_the_rows_and_intervals_of_the_command(site, fleet, capfd):
    found = answer(capfd, fleet, "top", "--rows", "50")
    text = page(site, "fleet/top")
    (rows,) = tables(text)
    assert [row[0] for row in rows] == [one["function"] or "[no name]" for one in found["rows"]]
    assert [row[1] for row in rows] == [f"{100 * one['share']:.2f} %" for one in found["rows"]]
    spin = next(one for one in found["rows"] if one["function"] == "spin")
    assert f"{100 * spin['low']:.1f} to {100 * spin['high']:.1f} %" in text
    assert "8 hosts, 8 CPUs" in text


def test_a_span_is_asked_for_alone(site, fleet, capfd):
    (rows,) = tables(page(site, f"fleet/top?span={SPAN}"))
    assert "new" not in {row[0] for row in rows}  # of the second half
    assert rows[0][0] == "f0"


def test_hosts_and_builds_that_differ_are_shown(site, tmp_path):
    (rows,) = tables(page(site, "fleet/outliers"))
    assert [row[:2] for row in rows] == [["h5", "spin"]]
    builds = page(site_of(canaries(tmp_path / "canaries")), "fleet/builds")
    (rows,) = tables(builds)
    assert rows[0][:4] == ["web", NEW[:12], "/usr/bin/web", "deflate"]
    assert f"deploys?build={NEW}" in links(builds)


def test_a_build_leads_to_what_it_changed(site):
    listed = page(site, "fleet/deploys")
    address = next(one for one in links(listed) if NEW in one)
    changes, builds = tables(page(site, f"fleet/{address}"))
    assert changes[0][:2] == ["new", "0.00 %"]
    assert [row[0] for row in builds] == ["aa" * 6, "bb" * 6]


def test_coverage_has_hosts_and_objects_without_names(site):
    hosts, nameless = tables(page(site, "fleet/coverage"))
    assert hosts[0][:3] == ["h6", "1", "1.0 min"]
    assert nameless[0][2:] == ["cc" * 6, "/usr/lib/x.so", "stripped"]


def test_a_store_of_one_host_has_no_such_questions(tmp_path):
    fill(tmp_path / "s", [window_at(0)])
    assert "fleet/" not in page(site_of(tmp_path / "s"), "")


@pytest.mark.parametrize(
    "address",
    ["fleet/nothing", "fleet/", "fleet/top?build=aa", "fleet/deploys?build=x", "fleet/top?rows=9"],
)
def test_what_means_nothing_is_refused(site, address):
    assert asked(site, address).status == 400


def test_what_is_not_there_is_said(site):
    assert "no build dd" in page(site, "fleet/deploys?build=dd")
    assert "nothing matches" in page(site, "fleet/top?span=1000_2000")


def test_names_stay_text(tmp_path):
    name = "<script>alert(1)</script>\x1b[31m"
    fill_host(tmp_path / "f", "%3Cb%3E", {0: [Hit(name, 10, path=f"/{name}", process=name)]})
    site = site_of(tmp_path / "f")
    for question in QUESTIONS:
        text = page(site, f"fleet/{question}")
        assert "<script" not in text
        assert "\x1b" not in text
        assert "default-src 'none'" in text
