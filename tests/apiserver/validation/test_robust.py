"""No object that the schema accepts makes defaulting, admission or validation fail."""

import copy
import random

from bayplan.api.defaults import apply_defaults
from bayplan.api.schema import FieldTypeError, decode, type_for
from bayplan.apiserver import validation
from bayplan.apiserver.admission import CREATE, AdmissionError, Attributes, Chain
from tests.conformance.api.validation_cases.build import CLUSTER, GROUPS
from tests.conformance.api.validation_suite import steps
from tests.kube.mutations import mutated

ROUNDS = 4000


CHAIN = Chain()


class Empty:
    """A reader of a cluster with one namespace and nothing in it."""

    def get(self, group, resource, namespace, name):
        namespace = {"metadata": {"name": name}, "status": {"phase": "Active"}}
        return namespace if resource == "namespaces" else None

    def list(self, group, resource, namespace=""):
        return []

    def tally(self, group, resource, namespace, tally):
        """Nothing is used."""


def go_through(group, resource, obj, old):
    apply_defaults(group, resource, obj)
    attrs = Attributes(CREATE, group, "v1", resource, namespace="d", name="it", obj=obj)
    try:
        CHAIN.admit(attrs, Empty())
        validation.prepare_for_create(group, resource, obj)
        causes = validation.validate_create(group, resource, obj)
        validation.warnings_on_create(group, resource, obj)
        if not causes:
            validation.canonicalize(group, resource, obj)
            CHAIN.validate(attrs, Empty())
            CHAIN.settle(attrs, Empty())
    except AdmissionError:
        return False
    if old is not None:
        for subresource in ("", "status"):
            new, before = copy.deepcopy(obj), copy.deepcopy(old)
            validation.prepare_for_update(group, resource, new, before, subresource)
            validation.validate_update(group, resource, new, before, subresource)
            validation.warnings_on_update(group, resource, new, before)
    return not causes


def test_objects_made_wrong_at_random_are_answered():
    rng = random.Random(7)
    bodies = [step["body"] for step in steps() if step["method"] == "POST"]
    bodies = [body for body in bodies if body.get("kind") in GROUPS]
    stored = {}
    for _ in range(ROUNDS):
        body = rng.choice(bodies)
        for _ in range(rng.choice((1, 2, 4))):
            body = mutated(body, rng)
        version, resource = GROUPS[body["kind"]]
        try:
            obj, _ = decode(body, type_for(version, body["kind"]))
        except FieldTypeError:
            continue
        if body["kind"] not in CLUSTER:
            obj["metadata"].setdefault("namespace", "d")
        if go_through(version.rpartition("/")[0], resource, obj, stored.get(body["kind"])):
            stored[body["kind"]] = obj

    # Most kinds had a valid object among them, so that updates were tried too.
    assert len(stored) > 0.8 * len(GROUPS)
