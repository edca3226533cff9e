"""The notebook of examples/ runs from its first cell to its last, and finds what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
NOTEBOOK = Path(__file__).parent.parent.parent / "examples" / "profiles.ipynb"
pytestmark = [pytest.mark.live, pytest.mark.parallel]


def text_of(cell):
    """Return what a cell printed and shows, as text; of a profile also its HTML."""
    parts = []
    for output in cell.outputs:
        data = output.get("data", {})
        parts += [output.get("text", ""), data.get("text/plain", ""), data.get("text/html", "")]
    return "\n".join(parts)


def test_each_cell_runs_and_shows_the_planted_problem():
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert all(not cell.outputs for cell in notebook.cells if cell.cell_type == "code")
    folder = {"metadata": {"path": str(NOTEBOOK.parent)}}
    nbclient.NotebookClient(notebook, timeout=120, resources=folder).execute()
    shown = {cell.source: text_of(cell) for cell in notebook.cells if cell.cell_type == "code"}

    def of(part):
        return next(text for source, text in shown.items() if part in source)

    assert "settings" in of("profile = prospect.record")
    assert "<li" in of("profile = prospect.record")  # the flame graph, a list of calls
    assert "seconds" in of("to_pandas")
    assert "CPU s" in of("profile.report")
    assert "price" in of("callers_of")
    assert "faster by 20%: yes" in of("change.verdict")
    assert "s per run" in of('change.table("functions")')
