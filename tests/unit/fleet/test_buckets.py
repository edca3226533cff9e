"""What lies in a bucket is read through a cache, and is content of others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from builders.s3_server import BUCKET, KEY, SECRET
from builders.stacks import stacks_profile
from builders.stored import BEGIN_S, by_function, fill, window_at
from prospect.api.store_part import read_store
from prospect.assembly.code.code import code_of_report
from prospect.cli.main import main
from prospect.errors import StoreError
from prospect.fleet import object_store
from prospect.fleet.object_store import settings_of_files
from prospect.fleet.remote import RemoteDirectory
from prospect.fleet.remote_cache import VARIABLE, base
from prospect.fleet.sending import Shipment
from prospect.fleet.shipping import ship
from prospect.fleet.store_places import Place, place_of, without_credentials
from prospect.options import DisassemblerOptions, NamingOptions
from prospect.render.html import HtmlRenderer
from prospect.render.html.timeline_page import Choice
from prospect.store.directory import StoreDirectory
from prospect.web.store_site import ShownStore, StoreSite

pytest.importorskip("duckdb")
pytest.importorskip("obstore")

URL = f"s3://{BUCKET}/fleet"


@pytest.fixture(name="sent", scope="module")
def _sent():
    """What a server gets that two hosts with two windows each send to; empty until they have."""
    return {}


@pytest.fixture(name="bucket")
def _bucket(s3_server, sent, tmp_path, monkeypatch):
    """Return a server with two windows of each of two hosts."""
    if not sent:
        for host in ("a", "b/1"):
            path = tmp_path / host.replace("/", "-")
            fill(path, [window_at(minute) for minute in range(2)])
            with StoreDirectory(str(path)) as store:
                assert ship(store, Shipment(URL, host=host), BEGIN_S + 7200).complaint == ""
        sent.update(s3_server.objects)
    s3_server.objects.update(sent)
    monkeypatch.setattr(object_store, "_RETRIES", 0)
    s3_server.seen.clear()
    return s3_server


def fetched(server):
    return [key for word, key, _ in server.seen if word == "GET" and key]


def kept():
    return [path for path in Path(base()).rglob("*") if path.is_file()]


def test_every_command_reads_it(bucket, capfd):
    for words in (
        ["report", "--store", URL, "host:a"],
        ["calls", "--store", URL],
        ["diff", "--store", URL, "host:a", "--against", "host:b/1"],
        ["sql", "SELECT host, sum(n) FROM hits GROUP BY host", "--store", URL],
        ["store", "list", "--store", URL],
        ["store", "check", "--store", URL],
    ):
        assert main(words) == 0, words
    out = capfd.readouterr().out
    assert URL in out
    assert base() not in out


def test_of_the_hosts_that_are_chosen_alone_something_is_fetched(bucket):
    assert by_function(read_store(URL, ["host:b/*"])) == by_function(stacks_profile(), times=2)
    assert all("host=b%2F1/" in key for key in fetched(bucket))
    with pytest.raises(StoreError, match=r"there is .* host a, b/1"):
        read_store(URL, ["host:c"])


def test_a_browser_reads_it(bucket):
    code = code_of_report(DisassemblerOptions(gdb_processes=1))
    shown = ShownStore(URL, ["host:a"], HtmlRenderer(), NamingOptions(), code)
    page = StoreSite(shown, "token").timeline_page(Choice())
    assert URL.encode() in page


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("refused", "it refuses access"),
        ("missing", "there is no such bucket"),
        ("cut", "its answer is invalid"),
        ("nonsense", "no stores of hosts"),
        ("slow", "it does not answer in time"),
    ],
)
def test_a_bucket_that_cannot_be_listed_is_one_line(bucket, capfd, monkeypatch, fault, said):
    bucket.fault, bucket.slow_s = fault, 1.0
    if fault == "slow":
        monkeypatch.setattr(object_store, "SILENT_S", 0.3)
    assert main(["report", "--store", URL]) == 1
    error = capfd.readouterr().err
    assert error.startswith(f"prospect: {URL}: ")
    assert said in error
    assert error.count("\n") == 1
    assert KEY not in error


def test_an_answer_that_ends_early_is_an_error_and_leaves_nothing(bucket):
    # Behind the listings of the bucket and of its hosts.
    bucket.fault, bucket.faults_from = "short", 3
    with pytest.raises(StoreError, match="its answer ended early"):
        read_store(URL)
    bucket.fault = ""
    assert read_store(URL).hits.count.sum() > 0


def test_content_that_is_not_what_its_name_says_is_left_out(bucket):
    key = next(key for key in bucket.objects if "host=a" in key and "samples" in key)
    bucket.objects[key] = bucket.objects[key][::-1]
    found = read_store(URL)
    assert by_function(found) == by_function(stacks_profile(), times=3)
    (said,) = [one for one in found.run.limits if "left out" in one]
    assert "its content does not match its name" in said
    assert all(path.stat().st_size for path in kept())


@pytest.mark.parametrize(
    "name",
    [
        "host=a'/minute/date=2026-11-22/hour=14/x.samples.parquet",
        "host=*/minute/date=2026-11-22/hour=14/x.samples.parquet",
        "host=a/week/date=2026-11-22/x.samples.parquet",
        "format.json",
    ],
)
def test_names_that_no_store_gives_are_no_files(bucket, name):
    good = dict(bucket.objects)
    bucket.objects[f"fleet/{name}"] = next(iter(good.values()))
    assert by_function(read_store(URL)) == by_function(stacks_profile(), times=4)
    assert {path.name for path in kept()} <= {key.rpartition("/")[2] for key in good}


@pytest.mark.parametrize("name", ["host=a/../../x", "host=a/minute//x"])
def test_names_that_lead_elsewhere_are_an_error(bucket, name):
    bucket.objects[f"fleet/{name}"] = b""
    with pytest.raises(StoreError, match="a name in it is invalid"):
        read_store(URL)


def test_what_is_kept_has_a_bound(bucket, monkeypatch, capfd):
    read_store(URL, ["host:a"])
    before = kept()
    monkeypatch.setenv(VARIABLE, str(sum(path.stat().st_size for path in before) + 100))
    with pytest.raises(StoreError, match="do not fit into"):
        read_store(URL, ["host:b/1"])
    for path in before:
        os.utime(path, (1, 1))
    assert read_store(URL, ["host:b/1"]).hits.count.sum() > 0
    assert not {*before} & {*kept()}
    assert main(["cache"]) == 0
    assert "files of buckets" in capfd.readouterr().out
    assert main(["cache", "--clear"]) == 0
    assert kept() == []
    monkeypatch.setenv(VARIABLE, "much")
    with pytest.raises(StoreError, match="give a size"):
        read_store(URL)


def test_without_a_cache_nothing_stays(bucket, monkeypatch, tmp_path):
    monkeypatch.setenv("PROSPECT_NO_CACHE", "1")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "cache"))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert read_store(URL).hits.count.sum() > 0
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize(
    "url",
    [
        "s3://user:sesame@bucket/fleet",
        "s3://sesame@bucket",
        "s3://bucket/fleet?X-Amz-Signature=sesame",
        "file://sesame@host/srv",
        "https://user:sesame@host/x",
    ],
)
def test_a_url_with_credentials_is_refused_and_not_repeated(url, tmp_path, capfd):
    store = str(tmp_path / "s")
    for words in (
        ["report", "--store", url],
        ["sql", "SELECT 1", "--store", url],
        ["daemon", "--store", store, "--ship", url],
        ["store", "ship", "--store", store, "--ship", url],
        ["report", url],
    ):
        assert main(words) in (1, 2)
        said = capfd.readouterr()
        assert "sesame" not in said.err + said.out
        assert said.err.count("\n") == 1
    with pytest.raises(StoreError, match="refused") as caught:
        place_of(url)
    assert "sesame" not in str(caught.value)
    assert "sesame" not in without_credentials(f"x {url}: y")


def test_places_are_directories_or_prefixes_of_buckets():
    assert place_of("a/b@c?d") == Place("file", "", "a/b@c?d")
    assert place_of("file:///srv/a%20b") == Place("file", "", "/srv/a b")
    assert place_of("s3://b.c-1/x/y/") == Place("s3", "b.c-1", "x/y")
    assert place_of("s3://bucket").url == "s3://bucket"
    for text in ("s3://", "s3:///x", "s3://b", "s3://bucket/a//b", "s3://bucket/../x", "gs://b/x"):
        with pytest.raises(StoreError, match="give a"):
            place_of(text)


def test_keys_come_from_files_where_the_environment_has_none(tmp_path, bucket, monkeypatch):
    (tmp_path / "keys").write_text(
        f"[default]\naws_access_key_id = other\naws_secret_access_key = x\n"
        f"[fleet]\naws_access_key_id={KEY}\naws_secret_access_key={SECRET}\n"
    )
    (tmp_path / "config").write_text(
        f"[profile fleet]\nregion = eu-west-1\nendpoint_url = {bucket.url}\n"
    )
    for name in bucket.environment:
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "keys"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "fleet")
    assert read_store(URL).hits.count.sum() > 0
    assert all(f"Credential={KEY}/" in one for _, _, one in bucket.seen)
    assert all("/eu-west-1/s3/" in one for _, _, one in bucket.seen)
    environment = {"AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "keys"), "AWS_CONFIG_FILE": "/no"}
    assert settings_of_files(environment)["aws_access_key_id"] == "other"
    assert settings_of_files(environment | {"AWS_ACCESS_KEY_ID": "k"}) == {}
    (tmp_path / "keys").write_bytes(b"\xff[[[")
    assert settings_of_files(environment) == {}


def test_nobody_has_credentials(bucket, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/no/file")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/no/file")
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(StoreError, match="no credentials were found"):
        read_store(URL)


def test_http_is_for_this_machine_alone(bucket, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://s3.example")
    with pytest.raises(StoreError, match="http:// is for loopback alone"):
        read_store(URL)


def test_what_a_file_holds_is_bounded_by_what_was_listed(bucket, monkeypatch):
    with RemoteDirectory(place_of(URL)) as store:
        path = next(iter(store.segments())).path("samples")
        monkeypatch.setitem(store._sizes, path, 10)
        store.bring([path])
        assert store.refused == {path: "it is larger than was listed"}
        assert not store.has_ours(path)


def test_bytes_are_counted_as_they_were_listed(bucket, capfd):
    main(["store", "list", "--store", URL, "--format", "json"])
    size = sum(map(len, bucket.objects.values()))
    assert f'"size_bytes": {size // 2}' in capfd.readouterr().out
