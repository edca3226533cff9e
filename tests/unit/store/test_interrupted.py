"""Ctrl-C in the middle of a query is Ctrl-C, which DuckDB takes and has an error of its own for."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import closing

import pytest

from prospect.store.directory import StoreDirectory
from prospect.store.engine import Engine, EngineError

pytest.importorskip("duckdb")

# An hour of a processor, or more.
ENDLESS = "SELECT sum(a.range * b.range) FROM range(10000000) AS a, range(10000000) AS b"


def answered(engine, how):
    if how == "rows":
        return engine.rows(ENDLESS)
    if how == "columns":
        return engine.columns(ENDLESS)
    return engine.keep("kept", ENDLESS)


@pytest.mark.parametrize("how", ["rows", "columns", "keep"])
def test_ctrl_c_ends_a_query_as_it_ends_python(tmp_path, how):
    with (
        StoreDirectory(str(tmp_path / "store"), create=True) as store,
        closing(Engine(store)) as engine,
    ):
        pressed = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        pressed.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                answered(engine, how)
        finally:
            pressed.cancel()
            pressed.join()
        # What is asked afterwards is answered, and errors are errors as before.
        assert engine.rows("SELECT 1") == [(1,)]
        with pytest.raises(EngineError):
            engine.run("SELECT nothing")
