"""A Spark standalone cluster on loopback: a master, and workers of one core each."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path


class SparkCluster:
    """Processes that `spark-class` starts; all of them end with it."""

    def __init__(self, directory: Path, workers: int = 2) -> None:
        """Start them, and wait until the master answers and has its workers."""
        import pyspark  # noqa: PLC0415 - where it is installed

        self._home = Path(pyspark.__file__).parent
        self._directory = directory
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.port = one.getsockname()[1]
        self.url = f"spark://127.0.0.1:{self.port}"
        deploy = "org.apache.spark.deploy"
        words = ("--host", "127.0.0.1", "--webui-port", "0")
        self._master = self._start(
            "master", f"{deploy}.master.Master", "--port", str(self.port), *words
        )
        self._until(self._answers)
        self.workers = [
            self._start(
                f"worker{number}",
                f"{deploy}.worker.Worker",
                *words,
                *("--cores", "1", "--memory", "1g", "--work-dir", str(directory / f"w{number}")),
                self.url,
            )
            for number in range(workers)
        ]
        log = directory / "master.log"
        self._until(lambda: log.read_text().count("Registering worker") >= workers)

    def kill_worker(self) -> None:
        """Kill a worker with all that it runs, as where its machine is gone."""
        worker = self.workers.pop()
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()

    def close(self) -> None:
        """End all processes."""
        for one in (*self.workers, self._master):
            os.killpg(one.pid, signal.SIGKILL)
            one.wait()

    def _start(self, name: str, class_name: str, *words: str) -> subprocess.Popen:
        environment = {**os.environ, "SPARK_HOME": str(self._home), "SPARK_LOCAL_IP": "127.0.0.1"}
        environment["SPARK_LOCAL_DIRS"] = str(self._directory)
        with (self._directory / f"{name}.log").open("w") as log:
            return subprocess.Popen(
                [self._home / "bin" / "spark-class", class_name, *words],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    @staticmethod
    def _until(is_so) -> None:
        for _ in range(600):
            if is_so():
                return
            time.sleep(0.2)
        raise TimeoutError
