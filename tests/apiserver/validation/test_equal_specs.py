"""Pods of one owner have equal specs, which are judged once."""

from bayplan.api.defaults import apply_defaults
from bayplan.apiserver.validation import pods


def pod(name, **spec):
    container = {"name": "c", "image": "i"}
    made = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container], **spec},
    }
    apply_defaults("", "pods", made)
    return made


def test_what_is_wrong_is_said_each_time_also_after_an_equal_valid_one():
    assert pods.validate_pod_create(pod("a")) == []
    assert pods.validate_pod_create(pod("b")) == []
    for _ in range(2):
        (cause,) = pods.validate_pod_create(pod("a", restartPolicy="Sometimes"))
        assert cause.field == "spec.restartPolicy"
    mirrored = pod("a")
    mirrored["metadata"]["annotations"] = {pods.MIRROR: "x"}
    assert pods.validate_pod_create(mirrored)


def test_what_depends_on_the_name_too_is_judged_each_time():
    claim = {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}
    }
    volumes = [{"name": "v", "ephemeral": {"volumeClaimTemplate": claim}}]
    assert pods.validate_pod_create(pod("short", volumes=volumes)) == []

    assert pods.validate_pod_create(pod("n" * 253, volumes=volumes))


def test_few_valid_specs_are_kept():
    for number in range(3 * pods._KEPT):
        pods.validate_pod_create(pod("a", priority=number))
        assert len(pods._VALID) <= pods._KEPT
