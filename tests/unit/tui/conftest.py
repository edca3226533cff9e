"""A profile that most tests of the screen look at."""

import pytest

from builders.live import with_times
from builders.profile import interrupted_profile


@pytest.fixture(scope="module")
def interrupted():
    return with_times(interrupted_profile(), 40.0)
