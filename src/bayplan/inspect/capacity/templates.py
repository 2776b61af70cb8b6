"""Templates as they are written: `3xdeployment/web`, `pod/web-0`, `db.yaml`, `cpu=1,memory=2Gi`."""

from __future__ import annotations

import re
from pathlib import Path

from bayplan.api import Container, ObjectMeta, Pod, PodSpec, ResourceRequirements
from bayplan.api.meta import Quantity
from bayplan.api.quantity import QuantityError, parse
from bayplan.inspect.capacity.ask import Template
from bayplan.inspect.cluster import Cluster
from bayplan.inspect.errors import InspectError
from bayplan.inspect.objects import Owner
from bayplan.inspect.whatif.applying import SUFFIXES
from bayplan.inspect.why.manifest import read_pods

_SHARE = re.compile(r"^(?:(\d+)x)?(.+)$")
FORMS = "write deployment/web, pod/web-0, FILE.yaml or cpu=1,memory=2Gi, with 3x before for a share"


def parse_template(cluster: Cluster, text: str) -> Template:
    """Read one template; raises InspectError that shows the forms."""
    match = _SHARE.match(text.strip())
    if match is None:
        raise InspectError(f'template "{text}" is empty; {FORMS}')
    share, what = int(match.group(1) or 1), match.group(2)
    if not 0 < share <= 1000:
        raise InspectError(f'template "{text}": the share must be from 1 to 1000')
    if Path(what).suffix in SUFFIXES:
        return _from_file(cluster, what, share)
    if "=" in what:
        return Template(what, _given(what, cluster.origin.namespace), share)
    parts = what.split("/")
    if len(parts) not in (2, 3) or not all(parts):
        raise InspectError(f'template "{text}" is not known; {FORMS}')
    namespace = parts.pop(0) if len(parts) == 3 else ""
    if parts[0] in ("pod", "pods", "po"):
        return Template(what, cluster.pod(parts[1], namespace), share)
    owner = cluster.owner(parts[0], parts[1], namespace)
    return Template(what, _of_owner(cluster, owner), share)


def _of_owner(cluster: Cluster, owner: Owner) -> Pod:
    """Like a pod that the owner has; its template if it has none."""
    pods = [pod for pod in cluster.pods_of(owner) if not pod.finished]
    if pods:
        return min(pods, key=lambda pod: pod.name)
    template = owner.spec.template
    meta = ObjectMeta(owner.name, owner.namespace, labels=template.metadata.labels)
    return Pod(metadata=meta, spec=template.spec)


def _from_file(cluster: Cluster, path: str, share: int) -> Template:
    pods = read_pods(cluster, path)
    if len(pods) != 1:
        raise InspectError(f'"{path}" holds {len(pods)} pods or owners; a template is one')
    return Template(Path(path).stem, pods[0], share)


def _given(text: str, namespace: str) -> Pod:
    requests: dict[str, Quantity] = {}
    for item in text.split(","):
        key, sign, value = item.partition("=")
        try:
            if not sign:
                raise InspectError(f'template "{text}": "{item}" is not RESOURCE=AMOUNT')
            if parse(value).nanos < 0:
                raise InspectError(f'template "{text}": {key}: "{value}" is below 0; {FORMS}')
        except QuantityError as problem:
            said = f'template "{text}": {key}: "{value}" is no amount, such as 2, 500m or 4Gi'
            raise InspectError(said) from problem
        requests[key.strip()] = value
    container = Container("c", resources=ResourceRequirements(requests=requests))
    return Pod(metadata=ObjectMeta("more", namespace), spec=PodSpec(containers=(container,)))
