"""What is finished reaches a target once, whatever the target and the sender do meanwhile."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from contextlib import closing
from errno import ENOSPC
from os import strerror

import pytest

from builders.s3_server import BUCKET
from builders.stacks import stacks_profile
from builders.stored import BEGIN_S, by_function, fill, samples_file, window_at
from prospect.api.store_part import read_store
from prospect.cli.main import main
from prospect.fleet import object_store
from prospect.fleet.sending import STATE, SentBefore, Shipment, is_chosen, sent_before, waiting
from prospect.fleet.shipping import ship
from prospect.records import replace
from prospect.store.compaction import compact
from prospect.store.directory import StoreDirectory
from prospect.store.engine import Engine
from prospect.store.retention import remove
from prospect.store.segments import DAY, HOUR, MINUTE, SAMPLES, Segment

pytest.importorskip("duckdb")
pytest.importorskip("obstore")

URL = f"s3://{BUCKET}/fleet"
NOW_S = BEGIN_S + 7200
# 14:05 to 14:09, and the hour behind it.
WINDOWS = [*range(4), 60, 61]


@pytest.fixture(name="filled", scope="module")
def _filled(tmp_path_factory):
    path = tmp_path_factory.mktemp("filled") / "s"
    fill(path, [window_at(minute) for minute in WINDOWS])
    return path


@pytest.fixture(name="store")
def _store(filled, tmp_path):
    shutil.copytree(filled, tmp_path / "s")
    with StoreDirectory(str(tmp_path / "s")) as store:
        yield store


def sent(store, url=URL, **options):
    return ship(store, Shipment(url, **options), NOW_S)


def hits_of(url):
    return by_function(read_store(str(url), stacks=True))


ALL = by_function(stacks_profile(), times=len(WINDOWS))


@pytest.fixture(name="target")
def _target(tmp_path):
    (tmp_path / "t").mkdir(mode=0o700)
    return tmp_path / "t"


def test_a_directory_of_hosts_is_what_the_store_is(store, target):
    shipped = sent(store, f"file://{target}")
    assert shipped.complaint == ""
    files = sorted(path for path in target.rglob("*") if path.is_file())
    assert shipped.sent_bytes == sum(path.stat().st_size for path in files)
    assert hits_of(f"file://{target}") == ALL
    assert all(not path.stat().st_mode & 0o077 for path in files)
    host = stacks_profile().run.hostname
    assert {path.relative_to(target).parts[0] for path in files} == {f"host={host}"}
    again = sent(store, f"file://{target}")
    assert again == (0, 0, "")
    assert sorted(path for path in target.rglob("*") if path.is_file()) == files


def test_a_copy_of_a_store_that_another_machine_sends_counts_once(
    store, target, tmp_path, monkeypatch
):
    shutil.copytree(tmp_path / "s", tmp_path / "copy")
    (tmp_path / "copy").chmod(0o700)
    sent(store, f"file://{target}")
    (tmp_path / "machine-id").write_text("another\n")
    monkeypatch.setattr("prospect.store.directory._MACHINE_ID", str(tmp_path / "machine-id"))
    with StoreDirectory(str(tmp_path / "copy")) as copy:
        assert sent(copy, f"file://{target}").sent_bytes
    assert hits_of(f"file://{target}") == ALL
    assert len(list(target.glob("host=*/store=*"))) == 1
    # Another machine's own store is another one, of whatever name that machine is.
    fill(tmp_path / "other", [window_at(minute) for minute in WINDOWS])
    with StoreDirectory(str(tmp_path / "other")) as other:
        sent(other, f"file://{target}")
    assert len(list(target.glob("host=*/store=*"))) == 2


def test_stores_of_several_hosts_sent_from_one_machine_stay_apart(tmp_path, target, capfd):
    for host in ("web-1", "web-2"):
        made = stacks_profile()
        profile = replace(made, run=replace(made.run, hostname=host))
        segments = fill(tmp_path / host, [window_at(minute, profile) for minute in range(2)])
        # What is damaged names nobody.
        samples_file(tmp_path / host, segments[-1]).write_bytes(b"")
        words = ["--store", str(tmp_path / host), "--ship", str(target)]
        assert main(["store", "ship", *words]) == 0
    capfd.readouterr()
    assert {path.name for path in target.iterdir()} == {"host=web-1", "host=web-2"}
    assert by_function(read_store(str(target), ["host:web-2"])) == by_function(stacks_profile())


def test_a_bucket_of_hosts_is_what_the_store_is(s3_server, store):
    assert sent(store).complaint == ""
    assert all(key.startswith("fleet/host=") for key in s3_server.objects)
    assert all("Credential=AKIA" in authorization for _, _, authorization in s3_server.seen)
    s3_server.page = 3
    assert hits_of(URL) == ALL
    # What is here already is not fetched again, and a damaged bucket harms it no more.
    fetched = [key for word, key, _ in s3_server.seen if word == "GET" and key]
    assert hits_of(URL) == ALL
    assert [key for word, key, _ in s3_server.seen if word == "GET" and key] == fetched


def test_sent_twice_is_stored_once(s3_server, store, tmp_path):
    sent(store)
    keys = dict(s3_server.objects)
    (tmp_path / "s" / "shipped.json").unlink()
    assert sent(store).sent_bytes > 0
    assert s3_server.objects == keys
    assert hits_of(URL) == ALL


def test_only_hours_that_are_over_are_sent(s3_server, store):
    def windows(now_s, **options):
        return [one.first for one in waiting(store, Shipment(URL, **options), now_s).segments]

    assert windows(BEGIN_S + 3660) == [0, 1, 2, 3]
    assert windows(BEGIN_S + 3660, everything=True) == windows(NOW_S) == [0, 1, 2, 3, 4, 5]
    # A clock that was set back an hour.
    assert windows(BEGIN_S) == [4, 5]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("full", "it is full"),
        ("refused", "it refuses access"),
        ("missing", "there is no such bucket"),
        ("forgets", "it has 0 of the"),
        ("nonsense", "bytes that it accepted"),
        ("slow", "does not answer in time"),
    ],
)
def test_what_a_target_does_not_take_waits_and_comes_later(
    s3_server, store, monkeypatch, fault, said
):
    monkeypatch.setattr(object_store, "_RETRIES", 0)
    if fault == "slow":
        monkeypatch.setattr(object_store, "SILENT_S", 0.3)
    s3_server.fault, s3_server.faults_from, s3_server.slow_s = fault, 12, 1.0
    shipped = sent(store)
    assert said in shipped.complaint
    assert shipped.complaint.startswith(URL)
    assert "AKIA" not in shipped.complaint
    assert "\n" not in shipped.complaint
    assert waiting(store, Shipment(URL), NOW_S).segments
    s3_server.fault = ""
    assert sent(store).complaint == ""
    assert hits_of(URL) == ALL
    assert sent_before(store, URL).next == len(WINDOWS)


@pytest.mark.parametrize(
    ("harm", "kind"),
    [
        ("cut", "samples"),
        pytest.param("cut", "functions", marks=pytest.mark.nightly),
        pytest.param("removed", "samples", marks=pytest.mark.nightly),
        ("removed", "functions"),
    ],
)
def test_what_is_cut_or_gone_at_the_target_is_sent_again(store, target, harm, kind):
    url = f"file://{target}"
    assert sent(store, url).complaint == ""
    assert hits_of(str(target)) == ALL
    path = sorted(target.rglob(f"*.{kind}.*"))[1]
    content = path.read_bytes()
    if harm == "cut":
        path.write_bytes(content[: len(content) // 2])
    else:
        path.unlink()
    assert sent(store, url).sent_bytes == 0
    shipped = ship(store, Shipment(url), NOW_S, checks_sent=True)
    assert shipped.complaint == ""
    assert shipped.sent_bytes >= len(content)
    assert path.read_bytes() == content
    assert ship(store, Shipment(url), NOW_S, checks_sent=True).sent_bytes == 0
    assert hits_of(str(target)) == ALL


@pytest.mark.parametrize("kind", ["samples", "coverage"])
def test_an_object_that_is_cut_or_gone_is_sent_again(s3_server, store, kind):
    assert sent(store).complaint == ""
    content = dict(s3_server.objects)
    cut, *_, gone = sorted(key for key in content if f".{kind}." in key)
    s3_server.objects[cut] = content[cut][: len(content[cut]) // 2]
    del s3_server.objects[gone]
    assert sent(store).sent_bytes == 0
    s3_server.puts.clear()
    assert ship(store, Shipment(URL), NOW_S, checks_sent=True).complaint == ""
    assert {cut, gone} <= set(s3_server.puts)
    assert s3_server.objects == content
    assert ship(store, Shipment(URL), NOW_S, checks_sent=True).sent_bytes == 0
    assert hits_of(URL) == ALL


@pytest.mark.parametrize("state", [b"{", b"[" * 100000, b'{"url": "%s", "next": 1e999, "day": 0}'])
def test_what_a_damaged_file_says_was_sent_is_sent_again(store, state):
    store.write_bytes(STATE, state.replace(b"%s", URL.encode()))
    assert sent_before(store, URL) == SentBefore()


def test_a_target_that_is_away_is_said(s3_server, store, monkeypatch):
    monkeypatch.setattr(object_store, "_RETRIES", 0)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    assert sent(store).complaint == f"{URL}: it cannot be reached"
    assert "make it, or mount it" in sent(store, "file:///no/such/place").complaint


def test_a_directory_that_is_full_has_nothing_by_halves(store, target, monkeypatch):
    real = StoreDirectory.write_bytes

    def full_disk(_part):
        raise OSError(ENOSPC, strerror(ENOSPC))

    def write_bytes(directory, path, content):
        if "samples" in path and ".3-3." in path:
            directory.write(path, full_disk)
        real(directory, path, content)

    with monkeypatch.context() as full:
        full.setattr(StoreDirectory, "write_bytes", write_bytes)
        assert sent(store, str(target)).complaint == f"{target}: No space left on device"
    assert not list(target.rglob("*.part"))
    assert hits_of(target) == by_function(stacks_profile(), times=3)
    assert sent(store, str(target)).complaint == ""
    assert hits_of(target) == ALL


def test_a_sender_that_is_killed_goes_on_where_it_was(s3_server, store):
    s3_server.fault, s3_server.faults_from = "slow", 14
    words = ["-m", "prospect", "store", "ship", "--store", store.path, "--ship", URL]
    with subprocess.Popen([sys.executable, *words]) as sender:
        while len(s3_server.seen) < 15 and sender.poll() is None:
            time.sleep(0.01)
        sender.send_signal(signal.SIGKILL)
    assert 0 < len(s3_server.objects) < 6 * 4
    s3_server.fault = ""
    assert sent(store).complaint == ""
    assert hits_of(URL) == ALL
    assert len(s3_server.puts) > len(s3_server.objects)


def test_another_target_gets_all_of_it(s3_server, store, target):
    sent(store)
    assert sent(store, f"file://{target}").sent_bytes > 0
    assert hits_of(target) == ALL


def test_hours_go_once_and_days_beside_them(s3_server, store):
    with closing(Engine(store)) as engine:
        compact(store, engine, NOW_S)
        assert sent(store).complaint == ""
        tiers = [key.split("/")[3] for key in s3_server.objects]
        assert {*tiers} == {HOUR}
        # One day later the day is made of hours that were sent.
        compact(store, engine, NOW_S + 86400)
    assert ship(store, Shipment(URL), NOW_S + 86400).sent_bytes > 0
    assert sorted({*(key.split("/")[3] for key in s3_server.objects)}) == [DAY, HOUR]
    assert ship(store, Shipment(URL), NOW_S + 86400) == (0, 0, "")
    assert hits_of(URL) == ALL
    assert by_function(read_store(URL)) == ALL


def test_minutes_that_were_sent_are_not_sent_as_an_hour(s3_server, store):
    sent(store)
    with closing(Engine(store)) as engine:
        compact(store, engine, NOW_S)
    assert {one.tier for one in store.segments()} == {HOUR}
    assert sent(store) == (0, 0, "")


def test_what_is_merged_or_removed_meanwhile_is_looked_for_again(s3_server, store, monkeypatch):
    real = store.read_bytes
    gone = []

    def read_bytes(path, most):
        if SAMPLES in path and not gone:
            gone.append(path)
            remove(store, min(store.segments(), key=lambda one: one.first))
        return real(path, most)

    monkeypatch.setattr(store, "read_bytes", read_bytes)
    assert sent(store).complaint == ""
    assert sent_before(store, URL).next == len(WINDOWS)
    assert hits_of(URL) == by_function(stacks_profile(), times=len(WINDOWS) - 1)


def test_a_share_of_hosts_is_the_same_for_everybody():
    segment = Segment(MINUTE, BEGIN_S, BEGIN_S + 60, "current", 0, 0)
    hosts = [f"host-{number}" for number in range(4000)]
    chosen = [host for host in hosts if is_chosen(segment, host, 0.1)]
    assert 320 < len(chosen) < 480
    later = segment._replace(begin_s=segment.begin_s + 3600)
    assert len({*chosen} & {host for host in hosts if is_chosen(later, host, 0.1)}) < 90
    assert all(is_chosen(segment, host, 1.0) for host in hosts)
    assert not any(is_chosen(segment._replace(tier=DAY), host, 0.5) for host in hosts)


def test_it_is_sent_by_hand(s3_server, store, capfd):
    assert main(["store", "ship", "--store", store.path]) == 2
    assert "give a URL" in capfd.readouterr().err
    words = ["store", "ship", "--store", store.path, "--ship", URL, "--format", "json"]
    assert main(words) == 0
    assert json.loads(capfd.readouterr().out)["sent_bytes"] > 0
    assert main(words[:-2]) == 0
    assert capfd.readouterr().out.startswith(f"nothing waits for {URL}")
    s3_server.fault = "full"
    fill(store.path, [window_at(62)])
    assert main(words) == 1
    assert capfd.readouterr().err == f"prospect: {URL}: it is full\n"
