"""Settings for all tests.

Hypothesis gives an example 200 ms by default. On a busy machine that fails at random, so there is
no deadline here; pytest's own timeout ends what hangs.

Real programs that `hack/kube-assets` built are put on the path, so that a test finds the same
kubectl or helm everywhere. Where CI is set a skipped test is a failed one: what it needs has to be
brought there, or its green would say nothing.
"""

import os

import pytest
from hypothesis import settings

from bayplan.testing.servers import kube_assets

settings.register_profile("bayplan", deadline=None)
settings.load_profile("bayplan")

if (assets := kube_assets()) is not None:
    os.environ["PATH"] = f"{assets}{os.pathsep}{os.environ.get('PATH', '')}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    report = yield
    if os.environ.get("CI") and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped where CI is set: {report.longrepr[2]}"
    return report
