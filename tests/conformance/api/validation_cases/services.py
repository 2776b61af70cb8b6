"""Services."""

# ruff: noqa: E501  one case a line is easier to read

from __future__ import annotations

from tests.conformance.api.validation_cases.build import Body, Step, post


def service(**spec: object) -> Body:
    return {"spec": {"ports": [{"port": 80}], **spec}}


CASES: dict[str, Body] = {
    "plain": service(selector={"app": "x"}),
    "two-ports": service(ports=[{"port": 80}, {"port": 81, "name": "b"}]),
    "two-ports-ok": service(ports=[{"port": 80, "name": "a", "targetPort": "web"}, {"port": 80, "name": "b", "protocol": "UDP", "appProtocol": "h2c"}]),
    "ports-bad": service(ports=[{"port": 0}, {"port": 70000, "name": "A"}, {"port": 1, "name": "c", "protocol": "X", "targetPort": "way-too-long-a-name"},
                                {"port": 1, "name": "c", "protocol": "X", "nodePort": 30000}]),
    "headless": service(clusterIP="None", selector={"a": "b"}),
    "headless-no-selector": {"spec": {"clusterIP": "None"}},
    "node-port": service(type="NodePort"),
    "node-port-given": service(type="NodePort", ports=[{"port": 80, "nodePort": 31234}]),
    "node-port-headless": service(type="NodePort", clusterIP="None"),
    "balancer": service(type="LoadBalancer", loadBalancerClass="x.example/y", loadBalancerSourceRanges=["10.0.0.0/8"]),
    "balancer-bad": service(type="LoadBalancer", clusterIP="None", loadBalancerSourceRanges=["x"], loadBalancerClass="a b"),
    "external-name": {"spec": {"type": "ExternalName", "externalName": "db.example."}},
    "external-name-bad": {"spec": {"type": "ExternalName", "externalName": ""}},
    "external-name-extra": {"spec": {"type": "ExternalName", "externalName": "Bad!", "clusterIP": "None"}},
    "type-bad": service(type="Odd"),
    "affinity": service(sessionAffinity="ClientIP"),
    "affinity-seconds": service(sessionAffinity="ClientIP", sessionAffinityConfig={"clientIP": {"timeoutSeconds": 100000}}),
    "affinity-bad": service(sessionAffinity="Odd"),
    "affinity-dropped": service(sessionAffinityConfig={"clientIP": {"timeoutSeconds": 5}}),
    "external-ips": service(externalIPs=["1.2.3.4", "127.0.0.1", "x"]),
    "external-ips-ok": service(externalIPs=["1.2.3.4"]),
    "traffic": service(internalTrafficPolicy="Odd", externalTrafficPolicy="Local", trafficDistribution="Odd", healthCheckNodePort=5),
    "traffic-local": service(internalTrafficPolicy="Local", trafficDistribution="PreferClose"),
    "class-on-cluster-ip": service(loadBalancerClass="x.example/y", allocateLoadBalancerNodePorts=True, loadBalancerSourceRanges=["10.0.0.0/8"]),
    "selector-bad": service(selector={"a b": "c d"}),
    "families": service(ipFamilies=["IPv4", "IPv4", "IPv5"], ipFamilyPolicy="Odd"),
    "cluster-ips": service(clusterIP="x", clusterIPs=["y"]),
    "name-digit": {**service(), "metadata": {"name": "1abc"}},
    "name-dots": {**service(), "metadata": {"name": "a.b"}},
    "warn-headless": service(clusterIP="None", selector={"a": "b"}, externalIPs=["1.2.3.4"], sessionAffinity="ClientIP"),
    "warn-name": service(externalName="x.example"),
    "publish": service(publishNotReadyAddresses=True),
}  # fmt: skip


def steps(namespace: str) -> list[Step]:
    return [post("Service", case, body, namespace) for case, body in CASES.items()]
