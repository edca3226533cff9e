"""What control groups are called."""

from __future__ import annotations

import pytest

from prospect.profile.group_names import service_of, services_of

ID = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("path", "service", "name"),
    [
        ("/", "", ""),
        ("", "", ""),
        ("/system.slice/nginx.service", "nginx.service", "nginx.service"),
        ("/system.slice/nginx.service/worker", "nginx.service", "nginx.service"),
        ("/user.slice/user-0.slice/session-3.scope", "session-3.scope", "session-3.scope"),
        (f"/docker/{ID}", "container-0123456789ab", "container-0123456789ab"),
        (f"/system.slice/docker-{ID}.scope", "container-0123456789ab", "container-0123456789ab"),
        ("/jobs/nightly/", "", "nightly"),
    ],
)
def test_services_and_containers_are_named_other_groups_by_their_last_name(path, service, name):
    assert service_of(path) == service
    assert services_of([path, path]) == [name, name]
