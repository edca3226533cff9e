"""The session of this process on a standalone Spark cluster."""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import socket
import subprocess
import tempfile
import warnings
from contextlib import suppress
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from prospect.errors import StoreError, UsageError
from prospect.fleet.fleet_limits import MOST_SPARK_MESSAGE, SPARK_CONNECT_S

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEME = "spark://"
_PARTITIONS_A_CORE, _LEAST_PARTITIONS = 3, 8
_SETTINGS = {
    "spark.app.name": "prospect",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # An overflow is an error, as in DuckDB.
    "spark.sql.ansi.enabled": "true",
    # A query must not open files by path.
    "spark.sql.runSQLOnFiles": "false",
    # Each level of a stack is a recursion; a stack has up to 127 frames.
    "spark.sql.cteRecursionLevelLimit": "1100",
    "spark.sql.cteRecursionRowLimit": "-1",
    # Many files give few rows: make partitions of 128 MB from several files.
    "spark.sql.files.openCostInBytes": str(256 << 10),
    "spark.sql.adaptive.enabled": "true",
    # Listing files as a job of the cluster would be a task for each file.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.driver.maxResultSize": "2g",
}


def address_of(master: str) -> tuple[str, int]:
    """Return the host and port of a cluster's master.

    Raises:
        UsageError: it is no such address.
    """
    host, colon, port = master.removeprefix(SCHEME).rpartition(":")
    if not master.startswith(SCHEME) or not colon or not host or not port.isdigit():
        raise UsageError(f"--engine {master}: give local, or spark://HOST:PORT of a master")
    if not 0 < int(port) < 1 << 16:
        raise UsageError(f"--engine {master}: there is no port {port}")
    return host.strip("[]"), int(port)


@lru_cache(maxsize=1)
def session_at(master: str) -> Any:
    """Return the session of this process with a cluster.

    Raises:
        UsageError: it is no address.
        StoreError: Spark is not installed, or the cluster does not answer.
    """
    host, port = address_of(master)
    for name in ("pyspark", "pyarrow", "sqlglot"):
        if find_spec(name) is None:
            raise StoreError(
                f"--engine {master} needs {name}: pip install 'prospect-profiler[spark]'"
            )
    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        raise StoreError(f"--engine {master} needs a Java: apt install default-jre-headless")
    try:
        with socket.create_connection((host, port), SPARK_CONNECT_S) as connection:
            own = connection.getsockname()[0]
    except OSError as error:
        reason = error.strerror or "no answer"
        raise StoreError(f"--engine {master}: nothing answers there: {reason}") from None
    return _started(master, own)


def _started(master: str, own: str) -> Any:
    """Start the driver, a Java process whose output goes to a file."""
    from py4j.protocol import Py4JError  # noqa: PLC0415 - a second, only if Spark is asked
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - a second, only if Spark is asked
    from pyspark.errors import PySparkException  # noqa: PLC0415 - a second, only if Spark is asked
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415 - a second, only if Spark is asked
    from pyspark.sql import SparkSession  # noqa: PLC0415 - a second, only if Spark is asked

    # These warnings are about pandas, which this does not use.
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    # On errors pyspark also writes Java's stack trace to standard error.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    addresses = {"spark.driver.host": own, "spark.driver.bindAddress": own}
    conf = SparkConf().setMaster(master).setAll([*(_SETTINGS | addresses).items()])
    with tempfile.TemporaryFile() as said:
        try:
            gateway = launch_gateway(
                conf, {"stdin": subprocess.PIPE, "stdout": said, "stderr": said}
            )
            context = SparkContext(conf=conf, gateway=gateway)
        except (PySparkException, Py4JError, OSError) as error:
            said.seek(0)
            lines = said.read(MOST_SPARK_MESSAGE).decode(errors="replace").splitlines()
            raise StoreError(f"--engine {master}: {_reason(error, lines)}") from None
    context.setLogLevel("OFF")
    partitions = max(_PARTITIONS_A_CORE * context.defaultParallelism, _LEAST_PARTITIONS)
    atexit.register(_stop, context)
    session = SparkSession(context)
    # A few for each core. Spark's default of 200 takes two cores seconds.
    session.conf.set("spark.sql.shuffle.partitions", partitions)
    return session


def _stop(context: Any) -> None:
    from py4j.protocol import Py4JError  # noqa: PLC0415 - where Spark is asked

    with suppress(Py4JError, OSError):  # its Java may have ended already
        context.stop()


def _reason(error: Exception, lines: Sequence[str]) -> str:
    """Return the reason why a driver did not start."""
    causes = [line.strip() for line in lines if "Exception" in line or "rror:" in line]
    return (causes or [str(error).strip().partition("\n")[0] or type(error).__name__])[0]
