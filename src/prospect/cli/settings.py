"""What the options of the command line amount to, and what holds without them."""

from __future__ import annotations

from prospect.options import (
    DisassemblerOptions,
    NamingOptions,
    RecordingOptions,
    ReportOptions,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prospect.options import Detail

DEFAULT_RECORDING = "perf.data"


class Settings(ReportOptions, NamingOptions, DisassemblerOptions, RecordingOptions):
    """What the options amount to; a field is a keyword of the Python interface too.

    What commands share stands in `prospect.options`. An empty `output` is stdout, an empty `save`
    keeps no recording.
    """

    output: str = ""
    otlp: str = ""
    input: str = ""
    program: str = ""
    save: str = ""
    target: str = ""
    merge: tuple[str, ...] = ()
    event_names: tuple[str, ...] = ()
    include_symbols: tuple[str, ...] = ()
    exclude_symbols: tuple[str, ...] = ()
    exclude_dependent: bool = False
    pager: bool = True
    clear: bool = False
    scope: Detail = "3"
    per: str = ""
    fdr: float = 0.05
    run_variation: float = 0.05
    rows: int = 20
    fail_if: str = ""
    most_routines: int = 5
    sections: tuple[str, ...] = ("totals", "callees")
    callers_of: str = ""
    through: str = ""
    cause: str = ""
    process: str = ""
    thread: str = ""
    object: str = ""
    routine: str = ""
    cpus: tuple[int, ...] | None = None
    between: tuple[float, float] | None = None
    share: float = 0.01
    source: bool = True
    source_files: bool = False
    output_dir: str = ""
    tids: tuple[int, ...] = ()
    search_dirs: tuple[str, ...] = ()
    base_dirs: tuple[str, ...] = ()
    include_files: tuple[str, ...] = ()
    exclude_files: tuple[str, ...] = ()
    whole: bool = False
    whole_images: bool = False
    interval_s: float = 0.0
    repeat: int = 1
    fields: bool = False
    check: bool = False
    port: int = 0
    opens_browser: bool = False
    store: str = ""
    engine: str = "local"
    fleet_rows: int = 15
    by: str = "host"
    daemon_hz: int = 19
    daemon_call_graph: str = "fp"
    window_s: float = 60.0
    keep: str = "7d,2G"
    metrics: str = ""
    ship: str = ""
    host_share: float = 1.0
    unit: bool = False
    side_a: tuple[str, ...] = ()
    side_b: tuple[str, ...] = ()
    runs: int = 5
    stdin: str = ""
    shows_output: bool = False
    ignores_failure: bool = False
    help: bool = False
    version: bool = False
