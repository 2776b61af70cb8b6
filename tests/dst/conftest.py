import logging

import pytest
import structlog


@pytest.fixture(autouse=True)
def _quiet():
    """Everything fails here; what is logged about it is not looked at."""
    before = structlog.get_config()
    quiet = structlog.make_filtering_bound_logger(logging.CRITICAL)
    structlog.configure(wrapper_class=quiet)
    yield
    structlog.configure(**before)
