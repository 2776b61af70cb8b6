"""By which fields objects can be selected: every built-in kind and every field that any knows."""

import pytest

from bayplan.apiserver.kinds import Registry
from bayplan.apiserver.version_kinds import version_kinds
from bayplan.config import FeatureGates
from bayplan.conformance.fuzz import minor
from bayplan.testing.servers import kube_version, start_embedded, start_kube
from tests.apiserver.test_field_selectors import EVERY, NAME
from tests.kube.twins import Connection

pytestmark = pytest.mark.kube


def test_both_servers_know_the_same_fields(tmp_path):
    version = minor(kube_version())
    kinds = [
        kind
        for kind in Registry(version_kinds(FeatureGates({}, version)))
        if kind.stored and "list" in kind.verbs
    ]
    answers = []
    arguments = f"--emulated-version={version}"
    with start_kube() as real, start_embedded(tmp_path, arguments) as ours:
        for server in (Connection(real), Connection(ours)):
            answers.append(dict(asked(server, kinds)))
            server.close()

    assert answers[0] == answers[1]
    assert len(answers[0]) > 2000


def asked(server, kinds):
    for kind in kinds:
        root = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"
        for path in (NAME, *EVERY):
            where = f"{root}/{kind.resource}?fieldSelector={path}%3Dx&limit=1"
            status, body = server.ask("GET", where)
            yield (kind.key, kind.resource, path), (status, body.get("message"))
