"""Pods for Pod Security, each with something that one level or the other does not allow."""

from typing import Any


def spec(*contexts: dict[str, Any], **more: Any) -> dict[str, Any]:
    containers = [
        {"name": f"c{at}", "image": "i", **({"securityContext": each} if each else {})}
        for at, each in enumerate(contexts or ({},))
    ]
    return {"containers": containers, **more}


GOOD = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
PODS = {
    "plain": spec(),
    "good": spec(GOOD),
    "privileged": spec({"privileged": True}, {"privileged": True}),
    "host namespaces": spec(hostNetwork=True, hostPID=True),
    "host path": spec(GOOD, volumes=[{"name": "v", "hostPath": {"path": "/"}}]),
    "nfs": spec(GOOD, volumes=[{"name": "v", "nfs": {"server": "s", "path": "/"}}]),
    "capabilities": spec({"capabilities": {"add": ["SYS_ADMIN", "CHOWN"]}}, GOOD),
    "selinux": spec(
        {"seLinuxOptions": {"type": "x", "user": "u"}},
        securityContext={"seLinuxOptions": {"role": "r"}},
    ),
    "seccomp": spec({"seccompProfile": {"type": "Unconfined"}}),
    "seccomp of the pod": spec(
        GOOD, {}, securityContext={"seccompProfile": {"type": "Unconfined"}}
    ),
    "sysctls": spec(securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}),
    "proc mount": spec({"procMount": "Unmasked"}, hostUsers=False),
    "root": spec({"runAsUser": 0, "runAsNonRoot": False}, securityContext={"runAsUser": 0}),
    "not root": spec({}, GOOD, securityContext={"runAsNonRoot": True}),
    "app armor": spec({"appArmorProfile": {"type": "Unconfined"}}),
    "host ports": {
        "hostNetwork": False,
        "containers": [
            {"name": "a", "image": "i", "ports": [{"containerPort": 1, "hostPort": 1}]},
            {"name": "b", "image": "i", "ports": [{"containerPort": 2, "hostPort": 2}]},
        ],
    },
    "probes": {
        "containers": [
            {
                "name": "a",
                "image": "i",
                "livenessProbe": {"httpGet": {"host": "h", "port": 1, "path": "/"}},
                "lifecycle": {"preStop": {"tcpSocket": {"host": "g", "port": 1}}},
            }
        ]
    },
    "host process": spec({"windowsOptions": {"hostProcess": True}}, hostNetwork=True),
}  # fmt: skip
