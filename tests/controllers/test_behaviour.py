"""Simulated pods and nodes that are told how to behave."""

from __future__ import annotations

from typing import Any

from bayplan.client.resources import CONFIG_MAPS, CORE_EVENTS, NODES, PODS, SERVICES
from bayplan.controllers.kubelet.answers import MAX_GENERATED
from bayplan.controllers.kubelet.behaviour import Told
from bayplan.controllers.manager import ControllerManager, select
from tests.controllers.cluster import Cluster, Json, cluster, pod_spec, virtual


async def pod(
    made: Cluster, name: str, told: Json | None = None, script: str = "", **spec: Any
) -> None:
    annotations = {f"bayplan.dev/{key}": value for key, value in (told or {}).items()}
    body = pod_spec(**spec)
    if script:
        body["containers"][0]["command"] = ["sh", "-c", script]
    metadata = {"name": name, "annotations": annotations, "labels": {"app": name}}
    await made.create(PODS, {"metadata": metadata, "spec": body})


async def container(made: Cluster, name: str, field: str = "containerStatuses") -> Json:
    found: Json = (await made.get(PODS, name))["status"][field][0]
    return found


async def ready(made: Cluster, name: str) -> bool:
    status = (await made.get(PODS, name))["status"]
    return any(c["type"] == "Ready" and c["status"] == "True" for c in status["conditions"])


async def reasons(made: Cluster) -> set[str]:
    return {event["reason"] for event in await made.list(CORE_EVENTS)}


@virtual
async def test_a_crash_loop_backs_off_and_tells_of_it() -> None:
    async with cluster(options={"events": True}) as made:
        await pod(made, "p", script="echo oops; exit 3")
        await made.settle(4)
        first = await container(made, "p")
        assert 1 == first["restartCount"]  # the first restart comes at once
        assert "CrashLoopBackOff" == first["state"]["waiting"]["reason"]
        assert first["state"]["waiting"]["message"].startswith("back-off 10s restarting failed")
        assert 3 == first["lastState"]["terminated"]["exitCode"]
        assert not await ready(made, "p")
        await made.settle(10)
        assert 2 == (await container(made, "p"))["restartCount"]
        await made.settle(20)
        assert 3 == (await container(made, "p"))["restartCount"]
        await made.settle(3600)

        assert 7 + (3634 - 610) // 300 == (await container(made, "p"))["restartCount"]
        assert {"BackOff", "Started", "Created", "Pulled"} <= await reasons(made)


@virtual
async def test_init_containers_run_in_order_and_sidecars_stay() -> None:
    async with cluster() as made:
        first = {"name": "first", "image": "i", "command": ["sleep", "10"]}
        beside = {"name": "beside", "image": "i", "restartPolicy": "Always"}
        second = {"name": "second", "image": "i", "command": ["sh", "-c", "sleep 10; exit 0"]}
        await pod(made, "p", initContainers=[first, beside, second])
        await made.settle(5)
        found = await made.get(PODS, "p")
        assert "Pending" == found["status"]["phase"]
        states = [next(iter(c["state"])) for c in found["status"]["initContainerStatuses"]]
        assert ["running", "waiting", "waiting"] == states
        await made.settle(10)
        states = [
            next(iter(c["state"]))
            for c in (await made.get(PODS, "p"))["status"]["initContainerStatuses"]
        ]
        assert ["terminated", "running", "running"] == states
        await made.settle(10)
        assert await ready(made, "p")

        bad = {"name": "bad", "image": "i", "command": ["false"]}
        await pod(made, "never", initContainers=[bad], restartPolicy="Never")
        await pod(made, "again", initContainers=[bad])
        await made.settle(60)
        assert "Failed" == (await made.get(PODS, "never"))["status"]["phase"]
        again = await container(made, "again", "initContainerStatuses")
        assert again["restartCount"] >= 3
        assert "Pending" == (await made.get(PODS, "again"))["status"]["phase"]


@virtual
async def test_probes_answer_as_told_or_as_the_command_does() -> None:
    async with cluster() as made:
        probe = {"exec": {"command": ["cat", "/tmp/health"]}, "periodSeconds": 1}
        quick = {**probe, "failureThreshold": 1}
        containers = [{"name": "c", "image": "i", "livenessProbe": quick}]
        containers[0]["command"] = [
            "sh",
            "-c",
            "touch /tmp/health; sleep 10; rm /tmp/health; sleep 600",
        ]
        await pod(made, "alive", containers=containers)
        slow = {"httpGet": {"port": 80}, "initialDelaySeconds": 30}
        await pod(made, "slow", containers=[{"name": "c", "image": "i", "readinessProbe": slow}])
        await pod(made, "told", {"readiness": "ok@20", "liveness": "fail@60"})
        await made.settle(8)
        assert not await ready(made, "slow")
        assert not await ready(made, "told")
        assert 0 == (await container(made, "alive"))["restartCount"]
        await made.settle(17)
        assert 1 == (await container(made, "alive"))["restartCount"]
        assert await ready(made, "told")
        await made.settle(10)
        assert await ready(made, "slow")
        await made.settle(40)

        assert 1 == (await container(made, "told"))["restartCount"]
        assert 137 == (await container(made, "told"))["lastState"]["terminated"]["exitCode"]


@virtual
async def test_images_that_cannot_be_pulled_keep_a_pod_waiting() -> None:
    async with cluster() as made:
        await pod(made, "bad", {"image-pull": "fail"})
        await pod(made, "slow", {"image-pull": "20"})
        await made.settle(5)
        assert "ErrImagePull" == (await container(made, "bad"))["state"]["waiting"]["reason"]
        assert "ContainerCreating" == (await container(made, "slow"))["state"]["waiting"]["reason"]
        await made.settle(20)

        assert "ImagePullBackOff" == (await container(made, "bad"))["state"]["waiting"]["reason"]
        assert await ready(made, "slow")
        before = await made.list(PODS)
        await made.settle(600)
        assert before == await made.list(PODS)
        await made.delete(PODS, "bad")
        await made.settle(5)
        assert not await made.exists(PODS, "bad")


@virtual
async def test_what_a_pod_needs_must_be_there() -> None:
    async with cluster() as made:
        env = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "a"}}}]
        env.append({"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}})
        script = "[ $A$B = 1p ] && cat /m/a > /dev/termination-log"
        one = {"name": "c", "image": "i", "env": env, "command": ["sh", "-c", script]}
        one["volumeMounts"] = [{"name": "v", "mountPath": "/m"}]
        volumes = [{"name": "v", "configMap": {"name": "m"}}]
        await pod(made, "p", containers=[one], volumes=volumes, restartPolicy="Never")
        await made.settle(10)
        assert "ContainerCreating" == (await container(made, "p"))["state"]["waiting"]["reason"]
        await made.create(CONFIG_MAPS, {"metadata": {"name": "m"}, "data": {"a": "1"}})
        await made.settle(30)

        ended = (await container(made, "p"))["state"]["terminated"]
        assert (0, "1") == (ended["exitCode"], ended["message"])


@virtual
async def test_a_container_is_told_of_the_services_of_its_namespace() -> None:
    async with cluster() as made:
        ports = [{"name": "web-ui", "port": 80}, {"name": "dns", "port": 53, "protocol": "UDP"}]
        spec = {"clusterIP": "10.96.0.77", "ports": ports}
        await made.create(SERVICES, {"metadata": {"name": "my-db"}, "spec": spec})
        headless = {"clusterIP": "None", "ports": ports}
        await made.create(SERVICES, {"metadata": {"name": "headless"}, "spec": headless})
        script = "env > /dev/termination-log"
        env = [{"name": "URL", "value": "at $(MY_DB_PORT)"}, {"name": "MY_DB_PORT", "value": "own"}]
        one = {"name": "c", "image": "i", "command": ["sh", "-c", script], "env": env}
        await pod(made, "p", containers=[one], restartPolicy="Never")
        await pod(made, "q", containers=[one], restartPolicy="Never", enableServiceLinks=False)
        await made.settle(10)

        said = (await container(made, "p"))["state"]["terminated"]["message"].splitlines()
        assert {
            "MY_DB_SERVICE_HOST=10.96.0.77",
            "MY_DB_SERVICE_PORT=80",
            "MY_DB_SERVICE_PORT_WEB_UI=80",
            "MY_DB_SERVICE_PORT_DNS=53",
            "MY_DB_PORT=own",
            "MY_DB_PORT_80_TCP=tcp://10.96.0.77:80",
            "MY_DB_PORT_80_TCP_PROTO=tcp",
            "MY_DB_PORT_80_TCP_PORT=80",
            "MY_DB_PORT_80_TCP_ADDR=10.96.0.77",
            "MY_DB_PORT_53_UDP=udp://10.96.0.77:53",
            "MY_DB_PORT_53_UDP_PROTO=udp",
            "MY_DB_PORT_53_UDP_PORT=53",
            "MY_DB_PORT_53_UDP_ADDR=10.96.0.77",
        } == {line for line in said if line.startswith("MY_DB")}
        assert "URL=at tcp://10.96.0.77:80" in said
        assert not [line for line in said if line.startswith("HEADLESS")]
        assert [line for line in said if line.startswith("KUBERNETES_SERVICE_HOST=")]
        told = (await container(made, "q"))["state"]["terminated"]["message"]
        assert "KUBERNETES_SERVICE_HOST=" in told
        assert "MY_DB_SERVICE_HOST" not in told


@virtual
async def test_a_pod_has_its_grace_and_its_hook() -> None:
    async with cluster() as made:
        hook = {"preStop": {"sleep": {"seconds": 20}}}
        containers = [{"name": "c", "image": "i", "lifecycle": hook}]
        await pod(made, "hook", containers=containers)
        await pod(made, "stubborn", script="trap 'echo no' TERM; while true; do sleep 1; done")
        await pod(made, "slow", {"stop-seconds": "5"})
        await made.settle(5)
        for name in ("hook", "stubborn", "slow"):
            await made.delete(PODS, name)

        gone: Json = {}
        for second in range(40):
            await made.settle(1)
            for name in ("hook", "stubborn", "slow"):
                if name not in gone and not await made.exists(PODS, name):
                    gone[name] = second
        assert 4 <= gone["slow"] <= 6
        assert 19 <= gone["hook"] <= 22
        assert 29 <= gone["stubborn"] <= 32


@virtual
async def test_a_pod_is_ended_at_its_deadline() -> None:
    async with cluster() as made:
        await pod(made, "p", activeDeadlineSeconds=30)
        await made.settle(20)
        assert "Running" == (await made.get(PODS, "p"))["status"]["phase"]
        await made.settle(20)

        status = (await made.get(PODS, "p"))["status"]
        assert ("Failed", "DeadlineExceeded") == (status["phase"], status["reason"])


@virtual
async def test_config_maps_tell_all_that_they_select() -> None:
    async with cluster() as made:
        labels = {"bayplan.dev/behaviour": "pods"}
        data = {"selector": "app=short", "run-seconds": "10", "exit-code": "4"}
        await made.create(CONFIG_MAPS, {"metadata": {"name": "r", "labels": labels}, "data": data})
        await made.settle(1)
        await pod(made, "short", restartPolicy="Never")
        await pod(made, "long", restartPolicy="Never")
        await made.settle(30)

        assert 4 == (await container(made, "short"))["state"]["terminated"]["exitCode"]
        assert "Running" == (await made.get(PODS, "long"))["status"]["phase"]


@virtual
async def test_a_zone_goes_dark_and_comes_back() -> None:
    async with cluster(nodes=4) as made:
        for number in range(4):
            await pod(made, f"p{number}", {"run-seconds": "60"}, restartPolicy="Never")
        await made.settle(10)
        labels = {"bayplan.dev/behaviour": "nodes"}
        data = {"selector": "topology.kubernetes.io/zone=a", "failed": "true"}
        body = {"metadata": {"name": "dark", "labels": labels}, "data": data}
        await made.create(CONFIG_MAPS, body, "kube-system")
        await made.settle(100)

        async def states() -> Json:
            nodes = await made.list(NODES)
            return {
                n["metadata"]["labels"]["topology.kubernetes.io/zone"]: c["status"]
                for n in nodes
                for c in n["status"]["conditions"]
                if c["type"] == "Ready"
            }

        assert {"a": "Unknown", "b": "True"} == await states()
        phases = sorted(p["status"]["phase"] for p in await made.list(PODS))
        assert ["Running", "Running", "Succeeded", "Succeeded"] == phases
        await made.client.delete(CONFIG_MAPS, "dark", "kube-system")
        await made.settle(30)
        assert {"a": "True", "b": "True"} == await states()
        assert {"Succeeded"} == {p["status"]["phase"] for p in await made.list(PODS)}


@virtual
async def test_a_node_is_told_of_pressure_and_of_not_being_ready() -> None:
    async with cluster() as made:
        told = {"bayplan.dev/pressure": "memory", "bayplan.dev/ready": "false"}
        await made.patch(NODES, "node-0", {"metadata": {"annotations": told}})
        await made.settle(20)

        node = await made.get(NODES, "node-0")
        found = {c["type"]: c["status"] for c in node["status"]["conditions"]}
        assert ("True", "False", "False") == (
            found["MemoryPressure"],
            found["DiskPressure"],
            found["Ready"],
        )


def test_usage_goes_up_and_down_over_time() -> None:
    told = Told({"cpu": "100m@0 900m@60 100m@120", "memory": "64Mi", "liveness": "maybe"})

    moments = (0, 59, 60, 119, 121, 185)
    assert [100, 100, 900, 900, 100, 900] == [
        (told.amount("cpu", moment) or 0) // 10**6 for moment in moments
    ]
    assert 64 << 20 == (told.amount("memory", 7) or 0) // 10**9
    assert told.amount("storage", 0) is None
    assert told.probe("liveness", 5) is None


@virtual
async def test_a_pod_ends_as_its_command_says_and_events_tell_of_it() -> None:
    async with cluster(options={"events": True}) as made:
        spec = pod_spec(restartPolicy="Never")
        spec["containers"][0]["command"] = ["sh", "-c", "sleep 5; exit 7"]
        await made.create(PODS, {"metadata": {"name": "p"}, "spec": spec})
        await made.settle(3)
        assert "Running" == (await made.get(PODS, "p"))["status"]["phase"]
        await made.settle(10)

        status = (await made.get(PODS, "p"))["status"]
        assert "Failed" == status["phase"]
        assert 7 == status["containerStatuses"][0]["state"]["terminated"]["exitCode"]
        reasons = {event["reason"] for event in await made.list(CORE_EVENTS)}
        assert {"Pulled", "Created", "Started"} <= reasons


@virtual
async def test_each_container_has_events_of_its_own_as_a_kubelet_writes_them() -> None:
    async with cluster(options={"events": True}) as made:
        containers = [{"name": name, "image": "i"} for name in ("one", "two")]
        await pod(made, "p", containers=containers)
        await made.settle(3)

        events = await made.list(CORE_EVENTS)
        started = [event for event in events if event["reason"] == "Started"]
        places = {event["involvedObject"]["fieldPath"] for event in started}
        assert {"spec.containers{one}", "spec.containers{two}"} == places
        assert {"Container started"} == {event["message"] for event in started}
        assert {"kubelet"} == {event["source"]["component"] for event in started}
        assert {"node-0"} == {event["source"]["host"] for event in started}


@virtual
async def test_no_two_pods_have_one_address_also_after_a_restart() -> None:
    async with cluster("*,-kubelet") as made:
        clock = made.manager.kit.clock
        for turn in (1, 2):
            async with ControllerManager(made.client, select("kubelet"), clock=clock).running():
                for number in range(3):
                    await pod(made, f"p{turn}-{number}")
                await made.settle(5)

            addresses = [found["status"]["podIP"] for found in await made.list(PODS)]
            assert 3 * turn == len(addresses) == len(set(addresses))


@virtual
async def test_a_container_knows_the_time_of_day() -> None:
    async with cluster() as made:
        spec = pod_spec(restartPolicy="Never")
        spec["containers"][0]["command"] = ["sh", "-c", "date +%FT%TZ > /dev/termination-log"]
        await made.create(PODS, {"metadata": {"name": "p"}, "spec": spec})
        await made.settle(5)

        ended = (await container(made, "p"))["state"]["terminated"]
        assert ended["startedAt"] == ended["message"].strip()


@virtual
async def test_a_rule_for_an_image_says_that_it_cannot_be_pulled() -> None:
    async with cluster() as made:
        data = {"image": "b/* *:missing", "image-pull": "fail"}
        labels = {"bayplan.dev/behaviour": "pods"}
        await made.create(
            CONFIG_MAPS, {"metadata": {"name": "none", "labels": labels}, "data": data}
        )
        await made.settle(2)
        for name, image in (("good", "a/i:1"), ("bad", "a/i:missing")):
            await pod(made, name, containers=[{"name": "c", "image": image}])
        await made.settle(30)

        assert "ImagePullBackOff" == (await container(made, "bad"))["state"]["waiting"]["reason"]
        assert await ready(made, "good")


@virtual
async def test_a_container_without_a_limit_is_told_what_the_node_has() -> None:
    async with cluster() as made:
        limit = {"resourceFieldRef": {"resource": "limits.cpu"}}
        one = {
            "name": "c",
            "image": "i",
            "command": ["sh", "-c", "exit $CPUS"],
            "env": [{"name": "CPUS", "valueFrom": limit}],
        }
        await pod(made, "p", restartPolicy="Never", containers=[one])
        await made.settle(10)

        assert 8 == (await container(made, "p"))["state"]["terminated"]["exitCode"]


@virtual
async def test_a_pod_bound_to_a_node_whose_port_is_taken_is_refused() -> None:
    async with cluster(options={"events": True}) as made:
        one = {"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}]}
        node = (await made.list(NODES))[0]["metadata"]["name"]
        await pod(made, "first", containers=[one], nodeName=node)
        await made.settle(5)
        await pod(made, "second", containers=[one], nodeName=node)
        await made.settle(5)

        assert await ready(made, "first")
        status = (await made.get(PODS, "second"))["status"]
        assert ("Failed", "NodePorts") == (status["phase"], status["reason"])
        assert status["message"].startswith("Pod was rejected: Predicate NodePorts failed")
        await made.delete(PODS, "first")
        await made.delete(PODS, "second")
        await made.settle(40)
        await pod(made, "third", containers=[one], nodeName=node)
        await made.settle(5)
        assert await ready(made, "third")


@virtual
async def test_a_part_of_a_volume_that_cannot_be_named_keeps_the_pod_waiting() -> None:
    async with cluster() as made:
        for name, part in (("up", "a/.."), ("root", "/a"), ("good", "a"), ("none", "")):
            mount = {"name": "v", "mountPath": "/v", "subPathExpr": "$(PART)"}
            whole = {"name": "v", "mountPath": "/whole"}
            one = {"name": "c", "image": "i", "volumeMounts": [mount, whole]}
            one["command"] = ["sh", "-c", "test -d /whole/$PART && sleep 1000"]
            one["env"] = [{"name": "PART", "value": part}]
            await pod(made, name, containers=[one], volumes=[{"name": "v", "emptyDir": {}}])
        await made.settle(10)

        assert await ready(made, "good")
        expected = {"up": "must not contain '..'", "root": "absolute path", "none": "for PART"}
        for name, text in expected.items():
            waiting = (await container(made, name))["state"]["waiting"]
            assert "CreateContainerConfigError" == waiting["reason"]
            assert text in waiting["message"]


@virtual
async def test_variables_that_double_keep_the_pod_waiting() -> None:
    """More than Linux gives a program when it starts; it would not be started there, either."""
    doubled = [{"name": f"A{i}", "value": f"$(A{i - 1})$(A{i - 1})"} for i in range(1, 40)]
    env = [{"name": "A0", "value": "x" * 10}, *doubled]
    many = [{"name": f"B{i}", "value": "$(A13)"} for i in range(30)]
    few = {"name": "c", "image": "i", "env": env[:14]}
    async with cluster() as made:
        for name, containers in (
            ("doubled", [{"name": "c", "image": "i", "env": env}]),
            ("many", [few | {"env": env[:14] + many}]),
            ("words", [few | {"command": ["$(A13)"] * 30}]),
            ("word", [few | {"command": ["$(A13)$(A13)"]}]),
            ("good", [few | {"command": ["$(A13)"]}]),
        ):
            await pod(made, name, containers=containers)
        await pod(made, "init", containers=[few], initContainers=[few | {"env": env, "name": "i"}])
        await made.settle(10)

        assert await ready(made, "good")
        for name in ("doubled", "many", "words", "word"):
            waiting = (await container(made, name))["state"]["waiting"]
            told = {"reason": "CreateContainerError", "message": "argument list too long"}
            assert told == waiting, name
        assert not await ready(made, "init")


@virtual
async def test_a_web_server_answers_only_where_it_listens() -> None:
    async with cluster() as made:
        for name, probe in (
            ("own", {"httpGet": {"path": "/", "port": 80}}),
            ("none", {"httpGet": {"path": "/", "port": 81}}),
            ("socket", {"tcpSocket": {"port": 81}}),
            ("named", {"httpGet": {"path": "/", "port": "web"}}),
            ("declared", {"httpGet": {"path": "/", "port": 8080}}),
        ):
            one = {"name": "c", "image": "e2e/agnhost:2.5", "args": ["test-webserver"]}
            ports = [{"name": "web", "containerPort": 8080}]
            await pod(made, name, containers=[{**one, "ports": ports, "readinessProbe": probe}])
        await made.settle(40)

        names = ("own", "none", "socket", "named", "declared")
        assert [True, False, False, True, True] == [await ready(made, name) for name in names]


@virtual
async def test_a_web_server_shows_its_folders_and_the_pages_that_it_has() -> None:
    async with cluster() as made:
        wanted = {"root": "/", "page": "/index.html", "other": "/missing.html"}
        for name, path in wanted.items():
            probe = {"httpGet": {"path": path, "port": 80}, "periodSeconds": 1}
            await pod(
                made, name, containers=[{"name": "c", "image": "httpd", "readinessProbe": probe}]
            )
        await made.settle(10)

        assert [True, True, False] == [await ready(made, name) for name in wanted]


@virtual
async def test_what_is_no_time_is_left_out_and_harms_nobody() -> None:
    names = ("start-seconds", "run-seconds", "stop-seconds", "image-pull", "log-seconds")
    async with cluster() as made:
        for value in ("nan", "soon"):
            await pod(made, value, dict.fromkeys(names, value) | {"log": "hello"})
        for value in ("1e-320", "1e999"):
            await pod(made, value, {"log": "hello", "log-seconds": value})
        await made.settle(20)
        assert all([await ready(made, name) for name in ("nan", "soon")])
        for name, lines in (("nan", 19), ("soon", 19), ("1e-320", MAX_GENERATED), ("1e999", 0)):
            log = await made.client.request("GET", f"/api/v1/namespaces/default/pods/{name}/log")
            assert lines <= log.count(b"hello") <= lines + 1
