"""Who may ask a served recording, and what is where."""

import io
import json
from email.message import Message

import numpy as np
import pytest

from builders.annotated import LOOP, LOOP_LINES, SOURCE, annotated_loop, code_table
from prospect.assembly.code.code import code_of_report
from prospect.errors import UsageError
from prospect.options import DisassemblerOptions
from prospect.render.html import HtmlRenderer
from prospect.render.registry import make_renderer
from prospect.web.recording_answers import CodeFinder, serve_profile
from prospect.web.site import Site

TOKEN = "a-token"
HOST = "127.0.0.1:8000"


class Code:
    def __init__(self, answer):
        self.answer = answer

    def describe(self, _profile, _choice):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def site_of(profile, code=None):
    finder = CodeFinder(code, code_of_report(DisassemblerOptions(gdb_processes=1)))
    return Site(serve_profile(profile, HtmlRenderer("4", 0.0, 0.0), finder), TOKEN)


@pytest.fixture(scope="module")
def site():
    return site_of(annotated_loop())


def headers(*pairs, host=HOST):
    message = Message()
    for name, value in ((("Host", host),) if host else ()) + pairs:
        message[name] = value
    return message


def status(site, target, *pairs, host=HOST):
    found = site.answer(target, headers(*pairs, host=host))
    assert bool(found.body) == (found.status == 200)
    return found.status


def test_the_token_opens_the_page_and_its_data(site):
    for name in ("", "data/report", "data/source", "data/stacks", "part?event=0"):
        assert status(site, f"/{TOKEN}/{name}") == 200


@pytest.mark.parametrize(
    "target",
    [
        "",
        "/",
        "//",
        "*",
        "/data/report",
        f"/{TOKEN}",
        f"/{TOKEN}x/",
        f"/{TOKEN[:-1]}/",
        f"/{TOKEN.upper()}/",
        "/\udcff/",
        f"/{TOKEN}/data/",
        f"/{TOKEN}/data/../report",
        f"/{TOKEN}/etc/passwd",
        f"/?token={TOKEN}",
        f"http://127.0.0.1/{TOKEN}/",
    ],
)
def test_nothing_else_is_there(site, target):
    assert status(site, target) == 404


@pytest.mark.parametrize("host", [HOST, "localhost:9000", "LOCALHOST:1", "127.0.0.1"])
def test_this_machine_by_its_own_name_is_answered_on_any_port(site, host):
    assert status(site, f"/{TOKEN}/", host=host) == 200


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example:8000",
        "127.0.0.1.evil.example:8000",
        "localhost.evil.example:1",
        "evil.example:127.0.0.1",
        "10.0.0.1:1",
        "127.0.0.1:8765@evil.com",
        "localhost:",
        "localhost:80:80",
        "localhost:80/evil.example",
        "127.0.0.1:\u0661",
    ],
)
def test_other_names_for_it_are_not(site, host):
    assert status(site, f"/{TOKEN}/", host=host) == 403


def test_two_names_are_none(site):
    assert status(site, f"/{TOKEN}/", ("Host", "evil.example")) == 403


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([("Origin", f"http://{HOST}")], 200),
        ([("Origin", "http://evil.example")], 403),
        ([("Origin", "null")], 403),
        ([("Sec-Fetch-Site", "same-origin"), ("Sec-Fetch-Mode", "cors")], 200),
        ([("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "no-cors")], 403),
        ([("Sec-Fetch-Site", "same-site"), ("Sec-Fetch-Mode", "cors")], 403),
        ([("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "navigate")], 200),
    ],
)
def test_other_pages_are_not_answered(site, pairs, expected):
    assert status(site, f"/{TOKEN}/data/report", *pairs) == expected


@pytest.mark.parametrize(
    "query",
    [
        "part?event=1",
        "part?event=x",
        "part?nonsense=1",
        "samples?event=1&frame=0",
        "samples?event=0&frame=999999",
        "samples?event=0",
        "code?event=0",
        "code?event=0&frame=999999",
    ],
)
def test_questions_without_sense_are_refused(site, query):
    assert status(site, f"/{TOKEN}/{query}") == 400


def test_the_page_holds_nothing_of_the_recording(site):
    body = site.answer(f"/{TOKEN}/", headers()).body
    assert b"application/gzip" not in body
    assert TOKEN.encode() not in body
    assert b"connect-src 'self'" in body


def test_code_says_why_there_is_none():
    profile = annotated_loop()
    functions = profile.functions.name
    for code, expected in (
        (None, b"another tool's profile"),
        (Code(UsageError("gdb is not installed")), b"gdb is not installed"),
        (Code(code_table({functions.index("work"): "the image is gone"})), b"the image is gone"),
    ):
        site = site_of(profile, code)
        frame = site._recording.names.labels.index("work")
        body = site.answer(f"/{TOKEN}/code?event=0&frame={frame}", headers()).body
        assert expected in body


def test_code_has_the_figures_of_an_annotation():
    profile = annotated_loop()
    work = profile.functions.name.index("work")
    recording = site_of(profile, Code(code_table({work: LOOP}, LOOP_LINES, SOURCE)))._recording
    body = recording.code(0, recording.names.labels.index("work"))
    document = json.loads(body)
    (function,) = document["functions"]
    assert function["samples"] == 100
    assert [(row["address"], row["samples"]) for row in function["instructions"]] == [
        (0x1002, 10),
        (0x1005, 60),
        (0x100A, 25),
        (0x100D, 4),
    ]
    assert function["samples_between_instructions"] == 1
    assert document["source"]["functions"][0]["name"] == "work"


def test_hits_are_those_of_the_selection(site):
    recording = site._recording
    frame = recording.names.labels.index("work")

    def asked(query):
        return json.loads(site.answer(f"/{TOKEN}/samples?{query}", headers()).body)

    whole = asked(f"event=0&frame={frame}")
    expected = {0x1002: 10, 0x1005: 60, 0x1007: 1, 0x100A: 25, 0x100D: 4}
    assert dict(zip(map(int, whole["addresses"]), whole["samples"], strict=True)) == expected
    assert sum(whole["weights"]) == pytest.approx(100 / 256, abs=1e-6)
    nobody = asked(f"event=0&frame={frame}&scope=process&process=1")
    assert nobody == {"addresses": [], "samples": [], "weights": []}


def test_the_report_is_that_of_the_file(site):
    profile = annotated_loop()
    out = io.BytesIO()
    options = {"detail": "4", "user_threshold_s": 0.0, "kernel_threshold_s": 0.0}
    make_renderer("json", **options).render(profile, out)
    found = json.loads(site.answer(f"/{TOKEN}/data/report", headers()).body)
    assert found["events"] == json.loads(out.getvalue())["events"]
    assert np.isclose(found["run"]["wall_seconds"], profile.run.wall_seconds)
