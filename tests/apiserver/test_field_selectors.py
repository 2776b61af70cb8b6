"""By which fields objects can be selected, kind by kind.

The table is upstream's conversion functions; `tests/kube/test_field_selectors.py` asks the real
server the same.
"""

import pytest

from bayplan.apiserver.selectors import exact_name
from bayplan.config import FeatureGates
from tests.apiserver.api import Api

NAME, NAMESPACE = "metadata.name", "metadata.namespace"
POD = "hostNetwork nodeName restartPolicy schedulerName serviceAccountName"
EVENT = "apiVersion fieldPath kind name namespace resourceVersion uid"
UPSTREAM = {
    "v1/Event": {
        *(f"involvedObject.{field}" for field in EVENT.split()),
        *("reason", "reportingComponent", "source", "type", NAMESPACE),
    },
    "events.k8s.io/v1/Event": {
        *(f"regarding.{field}" for field in EVENT.split()),
        *("reason", "reportingController", "type", NAMESPACE),
    },
    "v1/Namespace": {"status.phase"},
    "v1/Node": {"spec.unschedulable"},
    "v1/Pod": {
        *(f"spec.{field}" for field in POD.split()),
        *(f"status.{field}" for field in ("nominatedNodeName", "phase", "podIP", "podIPs")),
        NAMESPACE,
    },
    "v1/ReplicationController": {"status.replicas", NAMESPACE},
    "v1/Secret": {"type", NAMESPACE},
    "v1/Service": {"spec.clusterIP", "spec.type", NAMESPACE},
    "batch/v1/Job": {"status.successful", NAMESPACE},
    "resource.k8s.io/v1/ResourceSlice": {"spec.driver", "spec.nodeName", "spec.pool.name"},
    "certificates.k8s.io/v1/CertificateSigningRequest": {"spec.signerName"},
    "certificates.k8s.io/v1/ClusterTrustBundle": {"spec.signerName"},
    "certificates.k8s.io/v1/PodCertificateRequest": {
        *("spec.nodeName", "spec.podName", "spec.signerName")
    },
}
SINCE_1_37 = {"spec.pool.name"}
EVERY = sorted({path for paths in UPSTREAM.values() for path in paths} | {NAMESPACE, "odd"})


@pytest.mark.parametrize("version", ["1.36", "1.37"])
async def test_objects_are_selected_by_the_fields_that_upstream_knows(version):
    api = await Api.start(gates=FeatureGates({}, version))
    wrong = []
    for kind in list(api.server.backend.registry):
        if not kind.stored or kind.custom or "list" not in kind.verbs:
            continue
        root = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"
        known = UPSTREAM.get(kind.key, {NAMESPACE}) - (SINCE_1_37 if version == "1.36" else set())
        for path in (NAME, *EVERY):
            answer = await api.call("GET", f"{root}/{kind.resource}?fieldSelector={path}%3Dx")
            if (answer.status == 200) != (path == NAME or path in known):
                wrong.append((kind.key, path, answer.status))
    await api.close()

    assert [] == wrong


def test_of_two_names_the_first_in_order_is_the_one_that_permission_is_asked_for():
    for text in ("metadata.name=b,metadata.name=a", "metadata.name=a,metadata.name=b"):
        assert "a" == exact_name(text)
