"""How an address gets into the browser: not over a command line, where everybody reads it."""

import os
import stat
import webbrowser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from prospect.cli import view
from prospect.errors import ProspectError
from prospect.options import Settings
from prospect.web.server import opened_in_browser

ADDRESS = "http://127.0.0.1:8000/a-token/"


@pytest.mark.parametrize("has_browser", [True, False])
def test_the_browser_is_given_a_file_that_only_this_user_reads(monkeypatch, tmp_path, has_browser):
    given = []
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(webbrowser, "open", lambda url: given.append(url) or has_browser)
    old = os.umask(0)
    try:
        with opened_in_browser(ADDRESS) as opened:
            assert opened == has_browser
            (url,) = given
            assert "a-token" not in url
            path = Path(unquote(urlsplit(url).path))
            assert path.parent == tmp_path
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert f'content="0;url={ADDRESS}"' in path.read_text()
    finally:
        os.umask(old)
    assert list(tmp_path.iterdir()) == []


def test_without_a_place_for_the_file_it_is_an_error_that_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "missing"))
    settings = Settings(opens_browser=True, port=0)
    with pytest.raises(ProspectError, match=r"--open: no file .* No such file"):
        view._serve(None, "", settings)
