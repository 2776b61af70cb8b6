"""What tests of extenders share."""

import pytest

from bayplan.extender.http import Caller


@pytest.fixture
def caller():
    caller = Caller()
    yield caller
    caller.close()
