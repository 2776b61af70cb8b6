"""Faults that scenarios once had: each of these failed before."""

import pytest
from click.testing import CliRunner

from bayplan.cli.scenario import command
from bayplan.sim import ScenarioClient, ScenarioSyntaxError, SimulatedExtender, run_scenario
from bayplan.sim.library import path_of
from bayplan.sim.script import load_script, parse_script
from bayplan.sim.world import Settings

HEAD = """\
apiVersion: bayplan.dev/v1alpha1
kind: Scenario
steps:
"""


def run(steps: str, top: str = "", **options):
    return parse_script(HEAD.replace("steps", f"{top}steps") + steps, "x.yaml").run(**options)


def times(result, what: str) -> list[float]:
    return [moment.time for moment in result.timeline if moment.what == what]


# -- workloads


def test_a_lifetime_counts_from_the_binding():
    result = run("""
  - nodes: {name: one, cpu: 2}
    workload: {name: job, rate: 1/s, count: 6, arrivals: even, cpu: 1, lifetime: 100s}
""")

    assert result.ok, result.problems()
    assert result.seconds >= 300
    lives = result.tracker.past
    assert 6 == len(lives)
    assert [100.0] * 6 == [pytest.approx(life.gone - life.bound) for life in lives]


def test_pods_that_succeed_are_waited_for():
    result = run("""
  - nodes: {name: one}
    workload: {name: job, rate: 1/s, count: 2, arrivals: even, lifetime: 1h, leave: succeed}
""")

    assert [3601.1, 3602.1] == times(result, "succeeded")
    assert result.seconds == pytest.approx(3602.1)


def test_a_workload_that_fails_fails_the_scenario_even_with_done():
    result = run("""
  - workload: {name: job, rate: 1/s, count: 3, labels: {app: not a label}}
  - after: 1m
    done: true
""")

    assert not result.ok
    assert "a valid label must" in result.problems()


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        ("{name: w, trace: []}", "steps[0].workload.trace: holds no pods"),
        ("{name: w, trace: [{at: 2s}, {at: 1s}]}", "trace[1].at: is before the pod above"),
        ("{name: w, trace: [{at: 2s}], for: 1h}", 'workload.for: cannot stand beside "trace"'),
        ("{name: w, trace: [{at: 2s}], count: 9}", 'workload.count: cannot stand beside "trace"'),
        ("{name: w, trace: [{at: 2s}], leave: succeed}", 'workload.leave: needs "lifetime"'),
        ("{name: w, rate: 1/s, count: 1, leave: delete}", 'workload.leave: needs "lifetime"'),
    ],
)
def test_a_trace_that_would_not_be_played_as_written_is_refused(workload, message):
    with pytest.raises(ScenarioSyntaxError) as caught:
        parse_script(HEAD + f"  - workload: {workload}\n", "x.yaml")

    assert message in str(caught.value)


# -- time


def test_a_kubelet_counts_fractions_of_seconds():
    result = run("""
  - nodes: {name: one}
  - at: 1750ms
    pods: {name: a, lifetime: 2.5}
  - after: 10s
    log: over
""")

    assert [1.85] == times(result, "running")
    assert [pytest.approx(4.35)] == times(result, "succeeded")


def test_a_repetition_begins_every_so_often_whatever_its_steps_take():
    result = run("""
  - repeat:
      times: 3
      every: 1m
      steps:
        - {pods: {name: "p-{n}"}}
        - {after: 20s, log: "later {n}"}
""")

    assert [0.0, 60.0, 120.0] == times(result, "created")


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (
            "  - after: 1m\n    log: a\n  - at: 30s\n    log: b\n",
            "the step of line 6 is late: it should begin at 30 s, what comes before took until 60",
        ),
        (
            "  - repeat: {times: 2, every: 5s, steps: [{log: a}, {after: 9s, log: b}]}\n",
            "is late: its turn should begin at 5 s, what comes before took until 9 s",
        ),
    ],
)
def test_a_step_that_is_late_is_a_failure(steps, message):
    result = run(steps)

    assert message in result.problems()


def test_a_cluster_that_does_not_settle_is_a_failure():
    result = run("""
  - nodes: {name: one}
    workload: {name: w, rate: 2/s, for: 10m, lifetime: 1s}
  - settle: 2s
""")

    assert "the cluster did not settle within 300 s" in result.problems()


# -- expectations


@pytest.mark.parametrize(
    ("expectation", "seen"),
    [
        ("{pod: nobody, gone: true}", "it never existed"),
        ("{pod: nobody, neverEvicted: true}", "no such pod ever existed"),
        ("{pods: app=none, neverEvicted: true}", "no such pod ever existed"),
        ("{pods: app=none, byNode: {most: 1}}", "no such pod ever existed"),
        ("{pods: app=none, byNode: {skew: 1}}", "no such pod ever existed"),
        ("{pods: '*', by: {key: rack, most: 1}}", "no node has a label for rack"),
        ("{pods: '*', byNode: {exactly: {one: 1, nowhere: 0}}}", "one: 0"),
        ("{node: nowhere, exists: false}", "it never existed"),
        ("{pod: a, pending: true}", "bound to one"),
        ("{pods: '*', pending: 1}", "0 pending"),
        ("{pod: a, neverEvicted: true, namespace: other}", "no such pod ever existed"),
        ("{event: Scheduled, object: a, namespace: other}", "no event about it"),
        ("{node: one, pods: 1, for: 30s}", "0 pods"),
        ("{pod: a, phase: Running, for: 30s}", "phase Succeeded"),
        ("{object: {kind: Pod, name: a}, fields: {status.phase: Running}, for: 30s}", "Succeeded"),
    ],
)
def test_an_expectation_without_ground_fails(expectation, seen):
    result = run(f"""
  - nodes: {{name: one}}
    pods: {{name: a, lifetime: 5}}
    expect: [{expectation}]
""")

    assert 1 == len(result.failures)
    assert seen in result.failures[0]


def test_pods_that_are_nowhere_are_not_spread_evenly():
    result = run("""
  - nodes: {count: 2, name: "node-{i}", zones: [a, b], cpu: 1}
    pods: {count: 2, name: "web-{i}", labels: {app: web}, cpu: 4}
    expect: [{pods: app=web, byZone: {skew: 0}}]
""")

    assert ["expected pods app=web by zone: skew 0; seen instead: no pod is bound"] == [
        failure.partition(" (")[0] for failure in result.failures
    ]


def test_none_on_a_node_can_be_said():
    result = run("""
  - nodes: {count: 2}
    cordon: node-1
    pods: {name: a}
    expect:
      - {pods: a, byNode: {exactly: {node-0: 1, node-1: 0}}}
""")

    assert result.ok, result.problems()


def test_spread_waits_until_pods_were_tried():
    result = run("""
  - nodes: {count: 2}
    pods: {count: 4, labels: {app: web}}
    expect:
      - {pods: app=web, byNode: {most: 1}}
""")

    assert "node-0: 2, node-1: 2" in result.problems()


def test_finished_pods_do_not_count_on_their_node():
    result = run("""
  - nodes: {name: one}
    pods: {name: a, lifetime: 1}
  - after: 10s
    expect: [{node: one, pods: 0}]
""")

    assert result.ok, result.problems()


def test_objects_of_definitions_can_be_expected():
    result = run("""
  - create:
      apiVersion: apiextensions.k8s.io/v1
      kind: CustomResourceDefinition
      metadata: {name: ships.example.com}
      spec:
        group: example.com
        scope: Namespaced
        names: {plural: ships, singular: ship, kind: Ship}
        versions:
          - name: v1
            served: true
            storage: true
            schema:
              openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
  - after: 1s
    create: {apiVersion: example.com/v1, kind: Ship, metadata: {name: titan}, spec: {bays: 3}}
    expect:
      - {object: {apiVersion: example.com/v1, kind: Ship, name: titan}, fields: {spec.bays: 3}}
""")

    assert result.ok, result.problems()


# -- what was ignored


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("  - repeat: {times: 90000000000, steps: [{log: a}]}\n", "makes 90,000,000,000 steps"),
        (
            "  - repeat: {times: 999, steps: [{repeat: {times: 999, as: m, steps: [{log: a}]}}]}\n",
            "makes 998,001 steps; a scenario has at most 100,000",
        ),
        ("  - expect: {node: one, ready: true, namespace: x}\n", "namespace: nodes have none"),
        ("  - expect: {object: {kind: Pod, name: a}, fields: {}}\n", "fields: names no field"),
    ],
)
def test_steps_that_would_not_be_carried_out_are_refused(steps, message):
    with pytest.raises(ScenarioSyntaxError) as caught:
        parse_script(HEAD + steps, "x.yaml")

    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("top", "message"),
    [
        ("options: {kubelets: {}}\n", 'options.kubelets: unknown field; did you mean "kubelet"?'),
        ("options: {kubelet: {start: 3}}\n", "options.kubelet.start: unknown field"),
        (
            "config: {apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration,"
            " extenders: [{urlPrefix: 'http://127.0.0.1/', filterVerb: filter}]}\n",
            "config.extenders: are not called in a scenario",
        ),
    ],
)
def test_what_would_be_ignored_is_refused(top, message):
    with pytest.raises(ScenarioSyntaxError) as caught:
        run("  - log: x\n", top)

    assert message in str(caught.value)


def test_one_option_of_a_controller_leaves_the_others_alone():
    result = run(
        "  - nodes: {name: one}\n    pods: {name: a}\n  - after: 1m\n    log: over\n",
        "options: {kubelet: {start-seconds: 3}}\n",
    )

    assert [3.0] == times(result, "running")
    assert not [line for line in result.lines if "leases" in line]


@pytest.mark.parametrize(
    "flag", [["--seed", "1"], ["--config", "c.yaml"], ["--plugins", "p.py"], ["--real-time"]]
)
def test_flags_that_another_cluster_cannot_follow_are_refused(flag, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("kubeconfig.yaml", "c.yaml", "p.py"):
        (tmp_path / name).touch()

    done = CliRunner().invoke(command, ["run", "first-pod", "--against", "kubeconfig.yaml", *flag])

    assert 2 == done.exit_code
    assert f"{flag[0]} means nothing with --against" in done.output


# -- state


def test_a_slow_extender_is_quick_again_in_the_next_run():
    async def scenario(client: ScenarioClient) -> None:
        await client.nodes(1)
        await client.pod("a")
        await client.expect.bound("a", within=0.0)
        client.faults.slow_extender(3.0)

    settings = Settings(extenders=(SimulatedExtender("e", filter=lambda pod, node: ""),))

    for _ in range(2):
        result = run_scenario(scenario, settings=settings)
        assert result.ok, result.problems()


def test_a_node_that_came_back_in_time_is_not_lost():
    result = run("""
  - nodes: {name: one}
  - fault: {nodeLost: one}
  - after: 10s
    fault: {nodeBack: one}
  - after: 2m
    expect: [{node: one, ready: true}]
""")

    assert result.ok, result.problems()
    assert not [m for m in result.timeline if "not ready" in m.text]


def test_a_script_runs_twice_with_the_same_chance():
    path = path_of("busy-day")
    assert path is not None
    script = load_script(path)

    first, other, again = script.run(seed=3), script.run(seed=4), script.run(seed=3)

    assert first.hash == again.hash
    assert first.hash != other.hash


def test_volumes_have_the_times_of_the_simulation():
    seen = []

    async def scenario(client: ScenarioClient) -> None:
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/x"},
        }
        meta = {"name": "disk"}
        await client.create(
            {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": meta, "spec": spec}
        )
        for _ in range(2):
            found = await client.get("PersistentVolume", "disk")
            seen.append((found["status"]["phase"], found["status"]["lastPhaseTransitionTime"]))
            await client.sleep(10)

    run_scenario(scenario)

    assert ["Available", "Available"] == [phase for phase, _ in seen]
    assert all(time.startswith("2026-01-01T00:00:") for _, time in seen)
