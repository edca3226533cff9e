import os
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from builders.debug_server import (
    dead_server,
    endless_answer,
    redirect,
    serving,
    silent_server,
    whole_answer,
)
from builders.elf import Symbol, code, elf_file
from prospect.symbols.cache_directory import CacheDirectory
from prospect.symbols.naming_options import DebugServers
from prospect.symbols.objects import Wanted
from prospect.symbols.servers import downloads
from prospect.symbols.servers.downloads import Outcome, fetch_all

ID, OTHER_ID = bytes(range(1, 21)), bytes(range(2, 22))
DEBUG = Wanted(ID, needs_image=False)
IMAGE = Wanted(ID, needs_image=True)


def debug_file(build_id=ID, **more):
    more.setdefault("symbols", [Symbol("function", 0x1000, 16)])
    return elf_file(sections=[code()], build_id=build_id, **more)


def named(build_id, kind="debuginfo"):
    return build_id.hex(), kind


@pytest.fixture
def kept(tmp_path):
    return CacheDirectory(tmp_path / "prospect")


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


def ask(kept, *urls, wanted=(DEBUG,), announce=None, **limits):
    limits.setdefault("budget_s", 20.0)
    return fetch_all(list(wanted), DebugServers(urls, **limits), kept, announce)


def outcome(answers, build_id=ID):
    outcomes, _ = answers
    return outcomes[build_id]


def names(kept):
    return sorted(path.name for path in kept.path.iterdir()) if kept.path.exists() else []


def test_a_file_that_a_server_has_is_kept(kept):
    with serving({named(ID): debug_file()}) as (url, asked):
        outcomes, notes = ask(kept, url + "/")
    assert outcomes[ID] is Outcome.FOUND
    assert notes == []
    assert asked == [f"/buildid/{ID.hex()}/debuginfo"]
    (path,) = kept.path.iterdir()
    assert path.name == f"{ID.hex()}.debuginfo"
    assert path.read_bytes() == debug_file()
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_is_kept_is_not_asked_for_again(kept):
    with serving({named(ID): debug_file()}) as (url, asked):
        for _ in range(2):
            assert outcome(ask(kept, url)) is Outcome.FOUND
        assert len(asked) == 1


def test_the_next_server_is_asked_for_what_the_first_does_not_have(kept):
    with serving({}) as (first, _), serving({named(ID): debug_file()}) as (second, _):
        outcomes, notes = ask(kept, first, second)
    assert outcomes[ID] is Outcome.FOUND
    assert notes == []


def test_what_no_server_has_is_not_asked_for_again_for_a_while(kept):
    with serving({}) as (url, asked), serving({}) as (other, asked_other):
        for _ in range(2):
            assert outcome(ask(kept, url)) is Outcome.ABSENT
        assert len(asked) == 1
        assert outcome(ask(kept, url, other)) is Outcome.ABSENT
        assert (len(asked), len(asked_other)) == (2, 1)
        for path in kept.path.iterdir():
            os.utime(path, (time.time() - 3600,) * 2)
        ask(kept, url)
        assert len(asked) == 3


def test_that_a_server_failed_is_not_taken_for_an_answer(kept):
    dead = dead_server()
    with serving({}) as (url, asked):
        for _ in range(2):
            outcomes, notes = ask(kept, dead, url)
            assert outcomes[ID] is Outcome.FAILED
            assert notes == [f"The debug-file server {dead} was given up: Connection refused."]
        assert len(asked) == 2


def test_a_server_that_failed_is_not_asked_again(kept):
    with serving({}, lambda handler: whole_answer(handler, b"", status=503)) as (url, asked):
        wanted = [Wanted(bytes([number]) * 20, needs_image=False) for number in range(40)]
        outcomes, notes = ask(kept, url, wanted=wanted)
    assert len(asked) <= downloads.MOST_DOWNLOADS
    assert set(outcomes.values()) == {Outcome.FAILED}
    assert notes == [f"The debug-file server {url} was given up: it answered with HTTP status 503."]


def test_files_are_asked_for_in_the_order_in_which_they_are_wanted(kept, monkeypatch):
    monkeypatch.setattr(downloads, "MOST_DOWNLOADS", 1)
    wanted = [Wanted(bytes([number]) * 20, needs_image=False) for number in (3, 1, 2)]
    with serving({}) as (url, asked):
        ask(kept, url, wanted=wanted)
    assert [path.split("/")[2] for path in asked] == [one.build_id.hex() for one in wanted]


def test_a_silent_server_costs_no_more_than_the_time_that_all_may_take(kept):
    wanted = [Wanted(bytes([number]) * 20, needs_image=False) for number in range(9)]
    with silent_server() as url:
        outcomes, notes = ask(kept, url, wanted=wanted, budget_s=0.3)
    assert set(outcomes.values()) == {Outcome.LATE}
    (note,) = notes
    assert note == (
        "The debug-file servers were given 0.3 s, in which they did not answer for 9 of 9 "
        "objects; --debuginfod SEC gives them longer."
    )
    assert names(kept) == []


def test_a_silent_server_is_given_up_before_that(kept):
    with silent_server() as url, serving({named(ID): debug_file()}) as (second, _):
        outcomes, notes = ask(kept, url, second, prompt_s=0.2)
    assert outcomes[ID] is Outcome.FOUND
    assert notes == [f"The debug-file server {url} was given up: it did not answer in time."]


def test_what_comes_too_slowly_is_given_up(kept):
    def trickle(handler):
        handler.send_response(200)
        handler.end_headers()
        for _ in range(200):
            handler.wfile.write(b"\x7f")
            time.sleep(0.02)
        return True

    with serving({}, trickle) as (url, _):
        outcomes, notes = ask(kept, url, prompt_s=0.3)
    assert outcomes[ID] is Outcome.FAILED
    assert "bytes in 0 s" in notes[0]
    assert names(kept) == []


def test_a_file_that_takes_too_long_is_given_up(kept):
    with serving({}, endless_answer) as (url, _):
        outcomes, notes = ask(kept, url, whole_s=0.2)
    assert outcomes[ID] is Outcome.FAILED
    assert "a file took longer than 0 s" in notes[0]
    assert names(kept) == []


def test_an_endless_file_ends_at_the_limit(kept):
    with serving({}, endless_answer) as (url, _):
        outcomes, _ = ask(kept, url, most_bytes=1 << 20)
    assert outcomes[ID] is Outcome.TOO_BIG
    assert names(kept) == []


def test_all_files_together_have_a_limit_too(kept, monkeypatch):
    monkeypatch.setattr(downloads, "LARGEST_DOWNLOAD_BYTES", 1 << 20)
    with serving({}, endless_answer) as (url, _):
        assert outcome(ask(kept, url)) is Outcome.TOO_BIG
    assert names(kept) == []


def test_a_server_is_told_how_much_is_taken(kept):
    told = []

    def note(handler):
        told.append(handler.headers)
        return whole_answer(handler, b"", status=406)

    with serving({}, note) as (url, _):
        outcomes, notes = ask(kept, url, most_bytes=12345)
    assert outcomes[ID] is Outcome.TOO_BIG
    assert told[0]["X-DEBUGINFOD-MAXSIZE"] == "12345"
    assert told[0]["Accept-Encoding"] == "identity"
    assert notes == []


@pytest.mark.parametrize(
    "content", [debug_file(OTHER_ID), debug_file(None), b"", b"<html>not found</html>", bytes(5000)]
)
def test_what_was_not_asked_for_is_not_kept(kept, content):
    with serving({named(ID): content}) as (url, _):
        outcomes, notes = ask(kept, url)
    assert outcomes[ID] is Outcome.FAILED
    assert "it sent another file than was asked for" in notes[0]
    assert names(kept) == []


def test_a_file_that_breaks_off_is_not_kept(kept):
    def break_off(handler):
        return whole_answer(handler, debug_file(), length=10**9)

    with serving({}, break_off) as (url, _):
        _, notes = ask(kept, url)
    assert "it broke off in the middle of a file" in notes[0]
    assert names(kept) == []


def test_what_is_compressed_though_nobody_asked_is_not_unpacked(kept):
    def compress(handler):
        return whole_answer(handler, b"\x1f\x8b", ("Content-Encoding", "gzip"))

    with serving({}, compress) as (url, _):
        assert "it compresses" in ask(kept, url)[1][0]


def test_redirections_are_followed(kept):
    with (
        serving({named(ID): debug_file()}) as (target, _),
        serving({}, lambda handler: redirect(handler, target + handler.path)) as (url, _),
    ):
        assert outcome(ask(kept, url)) is Outcome.FOUND


def test_redirections_that_go_in_circles_end(kept):
    with serving({}, lambda handler: redirect(handler, handler.path)) as (url, asked):
        assert outcome(ask(kept, url)) is Outcome.FAILED
    assert len(asked) <= 6


@pytest.mark.parametrize(
    "host", ["127.0.0.2", "localhost", "[::ffff:127.0.0.1]", "169.254.169.254", "10.0.0.1"]
)
def test_redirections_lead_to_no_other_host_of_a_private_network(kept, host):
    with serving({named(ID): debug_file()}) as (target, asked):
        location = target.replace("127.0.0.1", host)
        with serving({}, lambda handler: redirect(handler, location + handler.path)) as (url, _):
            outcomes, notes = ask(kept, url)
    assert outcomes[ID] is Outcome.FAILED
    assert "is not a public address" in notes[0]
    assert asked == names(kept) == []


def test_a_name_that_stands_for_another_address_later_is_asked_nothing(kept, monkeypatch):
    monkeypatch.setattr("prospect.symbols.servers.downloads._addresses", lambda _: ["1.1.1.1"])
    with serving({named(ID): debug_file()}) as (target, asked):
        location = target.replace("127.0.0.1", "localhost")
        with serving({}, lambda handler: redirect(handler, location + handler.path)) as (url, _):
            outcomes, notes = ask(kept, url)
    assert outcomes[ID] is Outcome.FAILED
    assert "127.0.0.1, which is not a public address" in notes[0]
    assert asked == names(kept) == []


def test_a_redirection_to_another_host_that_is_configured_is_followed(kept):
    with serving({named(ID): debug_file()}) as (target, _):
        other = target.replace("127.0.0.1", "localhost")
        with serving({}, lambda handler: redirect(handler, other + handler.path)) as (url, _):
            assert outcome(ask(kept, url, dead_server().replace("127.0.0.1", "localhost"))) is (
                Outcome.FOUND
            )


@pytest.mark.parametrize("location", ["file:///etc/passwd", "ftp://127.0.0.1/x", "data:,x"])
def test_redirections_lead_to_the_web_only(kept, location):
    with serving({}, lambda handler: redirect(handler, location)) as (url, _):
        assert outcome(ask(kept, url)) is Outcome.FAILED
    assert names(kept) == []


@pytest.mark.parametrize(
    "answer", [b"not HTTP at all\n", b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200]
)
def test_what_is_not_http_is_a_failure(kept, answer):
    def speak(handler):
        handler.wfile.write(answer)
        return True

    with serving({}, speak) as (url, _):
        assert outcome(ask(kept, url)) is Outcome.FAILED


def test_of_an_object_that_is_gone_the_image_comes_first(kept):
    files = {
        named(ID, "executable"): debug_file(symbols=None),
        named(ID): debug_file(),
    }
    with serving(files) as (url, asked):
        assert outcome(ask(kept, url, wanted=[IMAGE])) is Outcome.FOUND
    assert [path.rsplit("/", 1)[1] for path in asked] == ["executable", "debuginfo"]
    assert names(kept) == [f"{ID.hex()}.debuginfo", f"{ID.hex()}.executable"]


def test_of_an_image_with_symbols_no_debug_file_is_wanted(kept):
    with serving({named(ID, "executable"): debug_file()}) as (url, asked):
        assert outcome(ask(kept, url, wanted=[IMAGE])) is Outcome.FOUND
    assert len(asked) == 1


def test_without_its_image_a_debug_file_is_of_no_use(kept):
    with serving({named(ID): debug_file()}) as (url, asked):
        assert outcome(ask(kept, url, wanted=[IMAGE])) is Outcome.ABSENT
    assert len(asked) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")
def test_nothing_is_fetched_into_a_directory_of_another_user(kept):
    kept.path.mkdir()
    os.chown(kept.path, 1234, 1234)
    with serving({named(ID): debug_file()}) as (url, _):
        outcomes, notes = ask(kept, url)
    assert outcomes[ID] is Outcome.FAILED
    assert "cannot be written" in notes[0]
    assert names(kept) == []


def test_a_cache_that_cannot_be_made_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with serving({named(ID): debug_file()}) as (url, asked):
        outcomes, notes = ask(CacheDirectory(tmp_path / "file" / "prospect"), url)
    assert outcomes[ID] is Outcome.FAILED
    assert "cannot be written" in notes[0]
    assert asked == []


def test_how_far_it_is_is_told(kept):
    heard = []
    with silent_server() as url:
        ask(kept, url, announce=heard.append, budget_s=0.3)
    assert heard[0].startswith("asking debug-file servers: 0 of 1 objects, 0 MB; 0 s left")


def test_what_arrives_after_the_time_is_over_is_not_kept(kept):
    go, done = threading.Event(), threading.Event()

    def late(handler):
        handler.send_response(200)
        handler.end_headers()
        content = debug_file()
        handler.wfile.write(content[:100])
        go.wait(20)
        with suppress(OSError):
            handler.wfile.write(content[100:])
        done.set()
        return True

    with serving({}, late) as (url, _):
        assert outcome(ask(kept, url, budget_s=0.3)) is Outcome.LATE
        assert names(kept) == []
        go.set()
        assert done.wait(20)
        workers = [thread for thread in threading.enumerate() if "_work" in thread.name]
        for thread in workers:
            thread.join(20)
    assert names(kept) == []


def test_passwords_are_not_shown(kept):
    url = dead_server().replace("//", "//user:secret@")
    _, (note,) = ask(kept, url)
    assert "secret" not in note


def test_what_was_used_longest_ago_makes_room(kept, monkeypatch):
    monkeypatch.setattr(downloads, "LARGEST_DOWNLOAD_BYTES", len(debug_file()) * 3 // 2)
    kept.make()
    old = kept.path / f"{OTHER_ID.hex()}.debuginfo"
    old.write_bytes(debug_file(OTHER_ID))
    table = kept.path / "table.symbols"
    table.write_bytes(bytes(100000))
    os.utime(old, (1, 1))
    with serving({named(ID): debug_file()}) as (url, _):
        assert outcome(ask(kept, url)) is Outcome.FOUND
    assert names(kept) == [f"{ID.hex()}.debuginfo", "table.symbols"]


def test_the_cache_directory_is_left_as_it_was_when_nothing_is_found(kept):
    with serving({}) as (url, _):
        ask(kept, url)
    assert [Path(name).suffix for name in names(kept)] == [".absent"]
