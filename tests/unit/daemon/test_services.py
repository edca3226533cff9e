"""Which service a process is part of."""

from __future__ import annotations

import pytest

from builders.profile_builder import ProfileBuilder
from prospect.daemon.sampling import Services, service_of_groups
from prospect.records import replace

CONTAINER = "a1" * 32


@pytest.mark.parametrize(
    ("lines", "service"),
    [
        ("0::/system.slice/nginx.service\n", "nginx.service"),
        (f"12:cpu:/docker/{CONTAINER}\n0::/\n", "container-a1a1a1a1a1a1"),
        ("2:cpu:/\n1:name=systemd:/system.slice/cron.service\n", "cron.service"),
        ("0::/\n", ""),
        ("", ""),
    ],
)
def test_lines_of_a_process_name_its_service(lines, service):
    assert service_of_groups(lines) == service


def test_a_process_that_has_ended_is_part_of_what_its_parent_is(tmp_path):
    build = ProfileBuilder()
    server = build.process("server", 10)
    build.process("worker", 11, parent_pid=10, parent_index=server)
    build.process("orphan", 12, parent_pid=99)
    build.process("swapper", 0)
    (tmp_path / "10").mkdir()
    (tmp_path / "10" / "cgroup").write_text("0::/system.slice/web.service\n")
    services = Services(str(tmp_path))
    processes = build.build().processes
    assert services.of(processes) == {0: "web.service", 1: "web.service"}
    # What is known stays known.
    (tmp_path / "10" / "cgroup").unlink()
    assert services.of(processes) == {0: "web.service", 1: "web.service"}


def test_a_number_that_was_given_again_is_another_process(tmp_path):
    (tmp_path / "10").mkdir()
    cgroup = tmp_path / "10" / "cgroup"
    services = Services(str(tmp_path))
    for name, start in (("one", 5), ("two", 9)):
        build = ProfileBuilder()
        build.process("p", 10, start_ns=start)
        cgroup.write_text(f"0::/{name}.service")
        assert services.of(build.build().processes) == {0: f"{name}.service"}


def test_what_samples_say_needs_no_process_and_goes_before_what_was_known(tmp_path):
    build = ProfileBuilder()
    build.process("web", 10)
    build.process("helper", 11, parent_pid=10, parent_index=0)
    processes = build.build().processes
    for proc in (str(tmp_path), ""):
        services = Services(proc)
        assert services.of(replace(processes, control_group=["/", ""])) == {}
        sampled = replace(processes, control_group=["/system.slice/web.service", ""])
        assert services.of(sampled) == {0: "web.service", 1: "web.service"}
        assert services.of(replace(processes, control_group=["/b.service", "/"]))[0] == "b.service"
        assert services.of(processes)[0] == "b.service"
