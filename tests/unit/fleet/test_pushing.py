"""Profiles reach a collector, or one line says why not and nothing is lost."""

from __future__ import annotations

import base64
import select
import time
from io import BytesIO

import pytest

from builders.collector import Collector
from builders.stacks import stacks_profile
from builders.stored import fill, window_at
from prospect.cli.main import main
from prospect.daemon.daemon_options import DaemonOptions
from prospect.daemon.senders import Pushing
from prospect.errors import PushError
from prospect.fleet import pushing
from prospect.fleet.pushing import document_for, push
from prospect.fleet.store_places import endpoint_of
from prospect.render.pprof import PprofRenderer
from prospect.store.directory import StoreDirectory

pytest.importorskip("duckdb")


# How long one step and all of it may take, of answers that take longer.
_PATIENCE = {"slow": (0.25, 30.0), "drip": (5.0, 0.8)}


@pytest.fixture(name="collector")
def _collector(monkeypatch):
    monkeypatch.setattr(pushing, "PUSH_PAUSE_S", 0.0)
    # Tests give them other values, which end with each.
    monkeypatch.setattr(pushing, "STEP_S", pushing.STEP_S)
    monkeypatch.setattr(pushing, "PUSH_S", pushing.PUSH_S)
    with Collector() as collector:
        yield collector


@pytest.fixture(name="document", scope="module")
def _document():
    return document_for("http://localhost", stacks_profile(), "4")


def test_a_collector_gets_what_the_format_has(collector, document, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20abc, x-tenant=1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROFILES_HEADERS", "x-tenant=2,bad=a%0Ab,=x,nothing")
    push(collector.url, document)
    (request,), (headers,) = collector.requests, collector.headers
    assert request.SerializeToString(deterministic=True)
    assert "vfs_read" in request.dictionary.string_table
    assert request.resource_profiles[0].scope_profiles[0].scope.name == "prospect"
    assert headers[":path"] == "/v1development/profiles"
    assert headers["content-type"] == "application/x-protobuf"
    assert headers["authorization"] == "Bearer abc"
    assert headers["x-tenant"] == "2"
    assert "bad" not in headers


@pytest.mark.parametrize(
    ("scheme", "path", "labels"),
    [
        ("pyroscope+", "/push.v1.PusherService/Push", lambda series: series["labels"]),
        ("parca+", "/api/profiles/writeraw", lambda series: series["labels"]["labels"]),
    ],
)
def test_pyroscope_and_parca_get_pprof_and_labels(collector, monkeypatch, scheme, path, labels):
    monkeypatch.setenv("PROSPECT_PUSH_HEADERS", "X-Scope-OrgID=team")
    profile = stacks_profile()
    url = scheme + collector.url
    push(url, document_for(url, profile, "4"))
    (request,), (headers,) = collector.requests, collector.headers
    assert (headers[":path"], headers["content-type"]) == (path, "application/json")
    assert headers["x-scope-orgid"] == "team"
    (series,) = request["series"]
    named = {label["name"]: label["value"] for label in labels(series)}
    assert named["__name__"] == "process_cpu"
    assert named["instance"] == profile.run.hostname
    (sample,) = series["samples"]
    out = BytesIO()
    PprofRenderer(detail="4").render(profile, out)
    assert base64.b64decode(sample["rawProfile"]) == out.getvalue()


@pytest.mark.parametrize(
    ("answers", "said", "tries"),
    [
        ([503, 503, 200], "status 503", 2),
        ([429, 401], "OTEL_EXPORTER_OTLP_HEADERS", 2),
        ([404], "takes no profiles", 1),
        ([500], "status 500", 1),
        ([307], "status 307", 1),
        (["reject"], "refuses 3 of its profiles", 1),
        (["slow", "slow"], "does not answer in time", 2),
        (["drip"], "does not answer in time", 1),
    ],
)
def test_a_collector_is_asked_twice_at_most(collector, document, answers, said, tries):
    collector.answers = answers
    pushing.STEP_S, pushing.PUSH_S = _PATIENCE.get(answers[0], (5.0, 30.0))
    with pytest.raises(PushError, match=said) as caught:
        push(collector.url, document)
    assert str(caught.value).startswith(f"{collector.url}: the collector does not have the profile")
    assert len(collector.headers) == tries


def test_a_collector_that_is_busy_for_a_moment_has_it_once(collector, document):
    collector.answers = [503, 200]
    push(collector.url, document)
    assert len(collector.requests) == 1


def test_urls_of_collectors(monkeypatch):
    assert (
        endpoint_of("http://localhost:4318/").url == "http://localhost:4318/v1development/profiles"
    )
    assert endpoint_of("https://c/otlp").url == "https://c/otlp/v1development/profiles"
    assert endpoint_of("https://c/v1development/profiles").url == "https://c/v1development/profiles"
    secret = "https://me:sesame@c"
    for url, said in (
        (secret, "is refused"),
        ("https://c?token=sesame", "is refused"),
        ("http://c:4318", "OTEL_EXPORTER_OTLP_INSECURE"),
        ("grpc://c:4317", "give the URL"),
        ("https://", "give the URL"),
        ("https://c:port", "give the URL"),
        ("https://c/a b", "give the URL"),
        ("parca+ftp://c", "give the URL"),
        ("pyroscope+http://c:4040", "PROSPECT_PUSH_INSECURE"),
    ):
        with pytest.raises(PushError, match=said) as caught:
            endpoint_of(url)
        assert "sesame" not in str(caught.value)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_INSECURE", "True")
    assert endpoint_of("http://c:4318").url.startswith("http://c:4318/")


def test_a_report_is_written_whether_the_profile_is_taken_or_not(collector, tmp_path, capfd):
    fill(tmp_path / "s", [window_at(0)])
    words = ["report", "--store", str(tmp_path / "s"), "--push"]
    assert main([*words, collector.url]) == 0
    plain = capfd.readouterr()
    assert plain.err == ""
    assert len(collector.requests) == 1
    collector.answers = [500]
    assert main([*words, collector.url]) == 1
    failed = capfd.readouterr()
    assert failed.out == plain.out
    assert failed.err.count("\n") == 1
    assert main([*words, "https://me:sesame@c"]) == 2
    assert "sesame" not in capfd.readouterr().err


def test_a_daemon_sends_each_window_once(collector, tmp_path):
    segments = fill(tmp_path / "s", [window_at(minute) for minute in range(3)])
    said = []
    with StoreDirectory(str(tmp_path / "s")) as store:
        sender = Pushing(store, DaemonOptions(push=collector.url), said.append)

        def wait():
            while sender.answer_fd >= 0:
                select.select([sender.answer_fd], [], [], 60)
                sender.finish()
            return sender.figures()

        for _ in range(2):  # the last one was not written anew
            sender.add(segments[0])
            assert wait()["push_windows"] == 1
        collector.answers = [500]
        sender.add(segments[1])
        figures = wait()
        assert (figures["push_windows"], figures["push_waiting"]) == (1, 1)
        assert "status 500" in figures["push_complaint"]
        assert len(said) == 1
        sender.add(segments[2])
        sender.end(time.monotonic() + 30)
        assert wait() == {
            "push": collector.url,
            "push_windows": 3,
            "push_waiting": 0,
            "push_lost": 0,
            "push_complaint": "",
        }
        assert said[1:] == ["the collector takes windows again"]
    assert len({request.SerializeToString() for request in collector.requests}) == 3
    assert collector.samples == [collector.samples[0]] * 3


def test_a_collector_that_is_away_costs_a_bounded_list(tmp_path, monkeypatch):
    (segment,) = fill(tmp_path / "s", [window_at(0)])
    monkeypatch.setattr("prospect.daemon.store_children._PROGRAM", "prospect.no_such_module")
    with StoreDirectory(str(tmp_path / "s")) as store:
        sender = Pushing(store, DaemonOptions(push="http://127.0.0.1:1"), lambda _: None)
        for number in range(70):
            sender.add(segment._replace(first=number, last=number))
        figures = sender.figures()
        assert (figures["push_waiting"], figures["push_lost"]) == (60, 10)
        sender.end(time.monotonic() + 30)
