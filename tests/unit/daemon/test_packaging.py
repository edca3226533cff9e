"""Files of packaging/: what they name is what the daemon has."""

from __future__ import annotations

import json
import re
from pathlib import Path

from prospect.cli.commands import DAEMON
from prospect.cli.option_parser import parse
from prospect.daemon.daemon_rights import kept_names
from prospect.daemon.metrics import METRICS

PACKAGING = Path(__file__).parent.parent.parent.parent / "packaging"
NAMES = {f"prospect_{name}" for name, *_ in METRICS} | {"prospect_info"}


def named(text):
    return set(re.findall(r"\bprospect_\w+", text))


def test_alerts_and_dashboard_ask_for_metrics_that_there_are():
    alerts = (PACKAGING / "prometheus" / "alerts.yml").read_text()
    dashboard = json.loads((PACKAGING / "grafana" / "dashboard.json").read_text())
    for text in (alerts, json.dumps(dashboard)):
        assert named(text) <= NAMES
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert all(named(expression) for expression in asked)
    assert len(re.findall(r"^ +expr: .*prospect_", alerts, re.MULTILINE)) == alerts.count("alert:")


def test_the_pod_and_the_image_run_a_daemon_with_the_rights_that_it_keeps():
    pod = (PACKAGING / "kubernetes" / "daemonset.yaml").read_text()
    (words,) = re.findall(r"^ +args: \[(.*)\]$", pod, re.MULTILINE)
    (added,) = re.findall(r"^ +add: \[([^]]*)\]", pod, re.MULTILINE)
    assert {f"CAP_{name}" for name in re.split(r",\s*", added)} == set(kept_names())
    image = (PACKAGING / "container" / "Dockerfile").read_text()
    command = json.loads(image.rpartition("CMD ")[2])
    for name, *arguments in (re.split(r", ", words.replace('"', "")), command):
        assert name == "daemon"
        settings, operands = parse(DAEMON, arguments)
        assert settings.metrics.endswith(":9464")
        assert not operands
