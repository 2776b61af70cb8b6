"""Admission: what other objects change or forbid."""

# ruff: noqa: E501  one case a line is easier to read

import pytest

from bayplan.apiserver.admission import (
    CREATE,
    DELETE,
    UPDATE,
    AdmissionError,
    Attributes,
    Chain,
    disabled_plugins,
)
from bayplan.errors import ConfigError

CHAINED = Chain()


class Objects:
    """A reader of a fixed set of objects."""

    def __init__(self, *objects):
        namespace = {"metadata": {"name": "d"}, "status": {"phase": "Active"}}
        self.objects = [("", "namespaces", namespace), *objects]

    def get(self, group, resource, namespace, name):
        for obj in self.list(group, resource, namespace):
            if obj["metadata"]["name"] == name:
                return obj
        return None

    def list(self, group, resource, namespace=""):
        return [o for g, r, o in self.objects if (g, r) == (group, resource)]

    def tally(self, group, resource, namespace, tally):
        tally.keep([])
        for number, obj in enumerate(self.list(group, resource, namespace)):
            tally.see(str(number), 1, obj)


def priority_class(name, value, **more):
    body = {"metadata": {"name": name}, "value": value, **more}
    return ("scheduling.k8s.io", "priorityclasses", body)


def limit_range(**item):
    body = {"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container", **item}]}}
    return ("", "limitranges", body)


def quota(**hard):
    hard = {name.replace("_", "."): amount for name, amount in hard.items()}
    body = {"metadata": {"name": "q"}, "spec": {"hard": hard}, "status": {"hard": hard}}
    return ("", "resourcequotas", body)


def pod(**spec):
    return {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "resources": {}}], **spec},
    }


def write(obj, reader=None, *, resource="pods", group="", operation=CREATE, **more):
    attrs = Attributes(operation, group, "v1", resource, namespace="d", name="p", obj=obj, **more)
    reader = reader or Objects()
    CHAINED.admit(attrs, reader)
    CHAINED.validate(attrs, reader)
    CHAINED.settle(attrs, reader)
    return attrs.obj


def refusal(*args, **more):
    with pytest.raises(AdmissionError) as caught:
        write(*args, **more)
    return caught.value


def test_a_missing_namespace_is_a_404_of_the_namespace():
    attrs = Attributes(CREATE, "", "v1", "pods", namespace="nowhere", name="p", obj=pod())

    with pytest.raises(AdmissionError) as caught:
        CHAINED.admit(attrs, Objects())

    assert (404, 'namespaces "nowhere" not found') == (caught.value.code, str(caught.value))


def test_nothing_is_created_in_a_namespace_that_goes():
    gone = {"metadata": {"name": "d"}, "status": {"phase": "Terminating"}}
    reader = Objects()
    reader.objects = [("", "namespaces", gone)]

    error = refusal(pod(), reader)

    assert "NamespaceTerminating" == error.details["causes"][0]["reason"]


def test_the_namespaces_of_the_system_may_not_be_deleted():
    attrs = Attributes(DELETE, "", "v1", "namespaces", name="kube-system")

    with pytest.raises(AdmissionError, match="this namespace may not be deleted"):
        CHAINED.admit(attrs, Objects())


@pytest.mark.parametrize(
    ("spec", "classes", "expected"),
    [
        pytest.param({}, [], ("", 0, "PreemptLowerPriority"), id="no class at all"),
        pytest.param({"priorityClassName": "high"}, [priority_class("high", 5)], ("high", 5, "PreemptLowerPriority"), id="by name"),
        pytest.param({}, [priority_class("usual", 3, globalDefault=True, preemptionPolicy="Never")], ("usual", 3, "Never"), id="the default"),
        pytest.param({"priorityClassName": "system-node-critical"}, [], ("system-node-critical", 2000001000, "PreemptLowerPriority"),
                     id="system classes are always there"),
    ],
)  # fmt: skip
def test_priority(spec, classes, expected):
    found = write(pod(**spec), Objects(*classes))["spec"]

    assert expected == (
        found.get("priorityClassName", ""),
        found["priority"],
        found["preemptionPolicy"],
    )


def test_an_unknown_class_is_forbidden():
    error = refusal(pod(priorityClassName="none"))

    assert 'pods "p" is forbidden: no PriorityClass with name none was found' == str(error)


def test_a_priority_that_is_not_the_class_value_is_forbidden():
    error = refusal(pod(priorityClassName="high", priority=7), Objects(priority_class("high", 5)))

    assert "computed 5 from the given PriorityClass name" in str(error)


def test_there_is_one_default_class():
    reader = Objects(priority_class("usual", 3, globalDefault=True))
    _, _, other = priority_class("p", 4, globalDefault=True)

    error = refusal(other, reader, resource="priorityclasses", group="scheduling.k8s.io")

    assert "PriorityClass usual is already marked as default" in str(error)


def test_only_the_missing_toleration_is_added():
    mine = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}

    tolerations = write(pod(tolerations=[mine]))["spec"]["tolerations"]

    assert [mine["key"], "node.kubernetes.io/unreachable"] == [t["key"] for t in tolerations]
    assert "tolerationSeconds" not in tolerations[0]


def test_a_pod_that_tolerates_everything_needs_no_more():
    assert 1 == len(write(pod(tolerations=[{"operator": "Exists"}]))["spec"]["tolerations"])


def test_an_update_keeps_the_priority():
    old = pod(priority=5, preemptionPolicy="Never")

    found = write(pod(), operation=UPDATE, old=old)["spec"]

    assert (5, "Never") == (found["priority"], found["preemptionPolicy"])


def test_limit_ranges_give_defaults_and_bounds():
    reader = Objects(
        limit_range(default={"cpu": "1"}, defaultRequest={"cpu": "500m"}, max={"cpu": "2"})
    )

    found = write(pod(), reader)
    error = refusal(pod(containers=[{"name": "c", "resources": {"limits": {"cpu": "3"}}}]), reader)

    assert {"limits": {"cpu": "1"}, "requests": {"cpu": "500m"}} == found["spec"]["containers"][0][
        "resources"
    ]
    assert "maximum cpu usage per Container is 2, but limit is 3" in str(error)


def test_a_quota_counts_what_is_there():
    reader = Objects(quota(pods="1"))
    write(pod(), reader)
    reader.objects.append(("", "pods", pod()))

    error = refusal(pod(), reader)

    assert "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1" in str(error)


def test_a_quota_binds_when_its_controller_has_seen_it():
    group, resource, body = quota(pods="0")
    unseen = (group, resource, {**body, "status": {}})

    assert write(pod(), Objects(unseen))
    refusal(pod(), Objects((group, resource, body)))


def test_a_quota_on_cpu_wants_to_know_it():
    error = refusal(pod(), Objects(quota(requests_cpu="1")))

    assert "failed quota: q: must specify requests.cpu for: c" in str(error)


def test_a_claim_gets_the_default_class_and_its_protection():
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    fast = {"metadata": {"name": "fast", "annotations": annotations}}
    claim = {"metadata": {"name": "p"}, "spec": {}}

    found = write(
        claim,
        Objects(("storage.k8s.io", "storageclasses", fast)),
        resource="persistentvolumeclaims",
    )

    assert "fast" == found["spec"]["storageClassName"]
    assert ["kubernetes.io/pvc-protection"] == found["metadata"]["finalizers"]


def test_services_get_different_addresses():
    reader = Objects()
    spec = {"type": "NodePort", "ports": [{"port": 80}, {"port": 81}]}
    first, second = (
        write({"metadata": {"name": "p"}, "spec": {**spec, "ports": [dict(p) for p in spec["ports"]]}}, reader, resource="services")["spec"]
        for _ in range(2)
    )  # fmt: skip

    ports = [port["nodePort"] for each in (first, second) for port in each["ports"]]
    assert first["clusterIP"] != second["clusterIP"]
    assert 4 == len(set(ports))
    assert [first["clusterIP"]] == first["clusterIPs"]


TAKEN = {
    "metadata": {"name": "other", "namespace": "default"},
    "spec": {
        "clusterIP": "10.96.0.77",
        "clusterIPs": ["10.96.0.77"],
        "ports": [{"nodePort": 30007}],
    },
}


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        pytest.param(
            {"ports": [{"port": 80, "nodePort": 30007}]},
            "spec.ports[0].nodePort: Invalid value: 30007: provided port is already allocated",
            id="a port that another has",
        ),
        pytest.param(
            {"ports": [{"port": 80}, {"port": 81, "nodePort": 80}]},
            "spec.ports[1].nodePort: Invalid value: 80: provided port is not in the valid range. "
            "The range of valid ports is 30000-32767",
            id="a port out of range",
        ),
        pytest.param(
            {"clusterIP": "10.96.0.77", "ports": [{"port": 80}]},
            'spec.clusterIPs: Invalid value: ["10.96.0.77"]: '
            "failed to allocate IP 10.96.0.77: provided IP is already allocated",
            id="an address that another has",
        ),
    ],
)
def test_what_another_service_has_is_refused(spec, told):
    reader = Objects(("", "services", TAKEN))
    body = {"metadata": {"name": "p"}, "spec": {"type": "NodePort", **spec}}

    error = refusal(body, reader, resource="services")

    assert (422, f'Service "p" is invalid: {told}') == (error.code, str(error))


def test_a_service_keeps_what_it_has():
    body = {"metadata": {"name": "other"}, "spec": {"type": "NodePort", **TAKEN["spec"]}}

    found = write(body, Objects(("", "services", TAKEN)), resource="services", old=TAKEN)

    assert [{"nodePort": 30007}] == found["spec"]["ports"]


def test_binding_copies_the_topology_of_the_node():
    labels = {"topology.kubernetes.io/zone": "a", "other": "x"}
    reader = Objects(("", "nodes", {"metadata": {"name": "n", "labels": labels}}))
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}

    found = write(binding, reader, subresource="binding")

    assert {"topology.kubernetes.io/zone": "a"} == found["metadata"]["labels"]


def test_plugins_are_switched_off_by_name():
    chain = Chain(disabled_plugins(["Priority"], ["DefaultTolerationSeconds"]))
    attrs = Attributes(CREATE, "", "v1", "pods", namespace="d", name="p", obj=pod())

    chain.admit(attrs, Objects())

    assert "tolerations" not in attrs.obj["spec"]
    assert 0 == attrs.obj["spec"]["priority"]


@pytest.mark.parametrize(
    ("enabled", "disabled", "message"),
    [
        (["Nonsense"], [], "unknown admission plugin 'Nonsense'"),
        ([], ["Nonsense"], "--disable-admission-plugins: unknown admission plugin"),
        (["Priority"], ["Priority"], "overlapped"),
    ],
)
def test_wrong_names_of_plugins_are_refused(enabled, disabled, message):
    with pytest.raises(ConfigError, match=message):
        disabled_plugins(enabled, disabled)


def account(**more):
    return ("", "serviceaccounts", {"metadata": {"name": "default", "namespace": "d"}, **more})


def with_account(obj, *objects):
    chain = Chain(disabled_plugins(["ServiceAccount"], []), lambda: "abcde")
    attrs = Attributes(CREATE, "", "v1", "pods", namespace="d", name="p", obj=obj)
    chain.admit(attrs, Objects(*objects))
    return attrs.obj["spec"]


def test_a_pod_gets_an_account_its_secrets_and_a_token():
    spec = with_account(pod(), account(imagePullSecrets=[{"name": "pull"}]))

    assert ("default", "default") == (spec["serviceAccountName"], spec["serviceAccount"])
    assert [{"name": "pull"}] == spec["imagePullSecrets"]
    (volume,) = spec["volumes"]
    assert "kube-api-access-abcde" == volume["name"]
    assert ["serviceAccountToken", "configMap", "downwardAPI"] == [
        next(iter(source)) for source in volume["projected"]["sources"]
    ]
    (mount,) = spec["containers"][0]["volumeMounts"]
    assert ("kube-api-access-abcde", True) == (mount["name"], mount["readOnly"])


@pytest.mark.parametrize(
    ("spec", "of_account", "mounted"),
    [
        ({"automountServiceAccountToken": False}, {}, False),
        ({}, {"automountServiceAccountToken": False}, False),
        ({"automountServiceAccountToken": True}, {"automountServiceAccountToken": False}, True),
    ],
)
def test_the_pod_says_before_its_account_whether_a_token_is_mounted(spec, of_account, mounted):
    found = with_account(pod(**spec), account(**of_account))

    assert mounted is bool(found.get("volumes"))


def test_a_pod_without_its_account_is_refused():
    with pytest.raises(AdmissionError, match='serviceaccount "default" not found'):
        with_account(pod())
