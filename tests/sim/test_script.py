"""Scenarios in YAML: what they can say, and how their mistakes are told."""

import pytest

from bayplan.sim import ScenarioSyntaxError
from bayplan.sim.script import parse_script

HEAD = """\
apiVersion: bayplan.dev/v1alpha1
kind: Scenario
steps:
"""


def run(steps: str, head: str = HEAD, **options):
    return parse_script(head + steps, "test.yaml").run(**options)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            f"{HEAD}  - at: 1h\n    pods: {{cpu: lots}}\n",
            'cpu: must be an amount such as 2, 500m or 4Gi, not "lots"',
            id="no amount",
        ),
        pytest.param(
            f"{HEAD}  - nodes:\n      extra: {{example.com/gpu: many}}\n",
            "must be an amount",
            id="no amount of another resource",
        ),
        pytest.param("kind: [", "x.yaml:2: did not find", id="not YAML"),
        pytest.param("- 1\n", "x.yaml:1: must be a map, not a list", id="a list"),
        pytest.param(
            "kind: Scenario\n", 'x.yaml:1: field "apiVersion" is missing', id="no version"
        ),
        pytest.param(
            "apiVersion: v1\nkind: Scenario\nsteps: []\n",
            'x.yaml:1: apiVersion: "v1" is not one of bayplan.dev/v1alpha1',
            id="another version",
        ),
        pytest.param(
            HEAD + "  - nodes: {count: 2}\n    pod: {}\n",
            'x.yaml:5: steps[0].pod: unknown field; did you mean "pods"?',
            id="unknown field with a hint",
        ),
        pytest.param(
            HEAD + "  - after: soon\n",
            'x.yaml:4: steps[0].after: "soon" is not a duration',
            id="bad duration",
        ),
        pytest.param(
            HEAD + "  - at: 10s\n  - at: 5s\n",
            "x.yaml:5: steps[1].at: is before the step above, which is at 10 s",
            id="time goes back",
        ),
        pytest.param(
            HEAD + "  - at: 1s\n    after: 1s\n",
            'x.yaml:5: steps[0].after: cannot stand beside "at"',
            id="two times",
        ),
        pytest.param(
            HEAD + "  - nodes:\n      count: many\n",
            'x.yaml:5: steps[0].nodes.count: must be a whole number of at least 1, not "many"',
            id="not a number",
        ),
        pytest.param(
            HEAD + "  - pods: {count: 2, name: web}\n",
            'x.yaml:4: steps[0].pods.name: must contain "{i}" when there are several',
            id="one name for many",
        ),
        pytest.param(
            HEAD + "  - expect:\n      - pod: a\n",
            "x.yaml:5: steps[0].expect[0]: needs exactly one of bound, boundTo",
            id="nothing expected",
        ),
        pytest.param(
            HEAD + "  - create: {apiVersion: v1, metadata: {name: a}}\n",
            'x.yaml:4: steps[0].create: field "kind" is missing',
            id="an object without kind",
        ),
        pytest.param(
            HEAD + "  - workload: {name: w, rate: fast, count: 1}\n",
            'steps[0].workload.rate: "fast" is not a rate; write 2/s, 30/m or 100/h',
            id="bad rate",
        ),
        pytest.param(
            HEAD + "  - workload: {name: w, rate: 1/s}\n",
            'steps[0].workload: needs "for" or "count", otherwise it never ends',
            id="endless workload",
        ),
        pytest.param(
            HEAD + "  - fault: {apiErrors: 2}\n",
            "steps[0].fault.apiErrors: must be between 0 and 1",
            id="impossible share",
        ),
        pytest.param(
            HEAD + "  - repeat: {times: 2, steps: [{pods: {nam: x}}]}\n",
            'steps[0].repeat.steps[0].pods.nam: unknown field; did you mean "name"?',
            id="inside a repetition",
        ),
        pytest.param(
            HEAD.replace("steps", "config: {kind: Nothing}\nsteps") + "  - log: x\n",
            "x.yaml:3: config: ",
            id="bad configuration",
        ),
        pytest.param("---\n", "x.yaml: must hold one scenario, not 0 documents", id="empty"),
    ],
)
def test_mistakes_name_file_line_and_field(text, message):
    with pytest.raises(ScenarioSyntaxError) as caught:
        parse_script(text, "x.yaml")

    assert message in str(caught.value)


def test_all_failures_of_a_run_are_collected():
    result = run("""
  - nodes: {name: one, cpu: 1}
    pods: {name: big, cpu: 4}
    expect:
      - {pod: big, boundTo: one, within: 3s}
      - {pods: "*", bound: 1, within: 1s}
      - {node: one, pods: 0}
      - {event: Nothing, object: big, within: 1s}
""")

    assert 3 == len(result.failures)
    assert (
        "pod default/big bound to one; seen instead: pending because 0/1 nodes"
        in (result.failures[0])
    )
    assert (
        "seen instead: 1 existing, 0 bound, 1 pending, 0 running; 1 pending: 0/1 nodes"
        in (result.failures[1])
    )
    assert "FailedScheduling (0/1 nodes are available" in result.failures[2]


def test_an_api_error_ends_the_scenario_and_is_told():
    result = run("""
  - create: {apiVersion: v1, kind: Pod, metadata: {name: Bad_Name}, spec: {containers: []}}
""")

    assert 1 == len(result.failures)
    assert "Bad_Name" in result.failures[0]


def test_the_limit_stops_and_says_what_was_going_on():
    result = run("  - log: x\n", head="limit: 10s\n" + HEAD)
    late = run(
        "  - name: a long wait\n    expect: [{pod: nobody, bound: true, within: 1h}]\n",
        head="limit: 10s\n" + HEAD,
    )

    assert result.ok
    assert ["stopped at its limit of 10 s: pod default/nobody bound"] == late.failures


def test_times_repetitions_and_done():
    result = run("""
  - nodes: {name: one}
  - at: 1h
    repeat:
      times: 3
      every: 10m
      steps:
        - pods: {name: "pod-{n}"}
  - done: {}
  - pods: {name: never}
""")

    made = {m.subject: m.time for m in result.timeline if m.what == "created"}

    assert {"default/pod-0": 3600.0, "default/pod-1": 4200.0, "default/pod-2": 4800.0} == made


def test_a_workload_comes_and_goes():
    text = """
  - nodes: {count: 2, name: "n-{i}"}
  - workload: {name: w, rate: 1/m, count: 10, lifetime: 5m, cpu: 100m}
  - workload: {name: e, rate: 6/h, arrivals: even, for: 1h, lifetime: {uniform: [1m, 2m]}}
"""
    result = run(text)

    assert result.ok, result.problems()
    assert 16 == result.tracker.created
    assert 16 == result.tracker.ended
    spans = [life.gone - life.bound for life in result.tracker.past if "/w-" in life.key]
    assert all(299 <= span <= 302 for span in spans)
    assert result.hash == run(text).hash
    assert result.hash != run(text, seed=1).hash


def test_objects_are_checked_by_field():
    result = run("""
  - create: {apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: "1"}}
    expect:
      - {object: {kind: ConfigMap, name: c}, fields: {data.a: "1"}}
      - {object: {kind: ConfigMap, name: c}, fields: {data.a: "2"}, within: 1s}
      - {object: {kind: ConfigMap, name: none}, fields: {data.a: "2"}, within: 1s}
""")

    assert [
        "expected ConfigMap default/c with data.a = 2; seen instead: data.a: 1",
        "expected ConfigMap default/none with data.a = 2; seen instead: no such object",
    ] == result.failures


KEP = """
apiVersion: simulation.kube-scheduler-simulator.x-k8s.io/v1alpha1
kind: Scenario
metadata: {name: kep}
spec:
  operations:
    - id: "2"
      step: 2
      createOperation:
        object:
          apiVersion: v1
          kind: Pod
          metadata: {name: web, namespace: default}
          spec: {containers: [{name: c, image: web}]}
    - id: "1"
      step: 1
      createOperation:
        object:
          apiVersion: v1
          kind: Node
          metadata: {name: node1, annotations: {bayplan.dev/simulated: "true"}}
          status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
    - id: "3"
      step: 3
      patchOperation:
        typeMeta: {apiVersion: v1, kind: Node}
        objectMeta: {name: node1}
        patch: '{"spec": {"unschedulable": true}}'
        patchType: application/merge-patch+json
    - id: "4"
      step: 4
      deleteOperation:
        typeMeta: {apiVersion: v1, kind: Pod}
        objectMeta: {name: web, namespace: default}
"""
DONE = '    - {id: "5", step: 5, doneOperation: {}}\n'


@pytest.mark.parametrize(("text", "phase"), [(KEP + DONE, "Succeeded"), (KEP, "Paused")])
def test_a_scenario_of_kep_140_runs_step_by_step(text, phase):
    script = parse_script(text)

    result = script.run()

    assert result.ok, result.problems()
    assert {"default/web": "node1"} == result.placements
    status = script.player.status
    assert phase == status["phase"]
    timeline = status["scenarioResult"]["timeline"]
    assert {"1", "2", "3", "4"} <= set(timeline)
    assert "node1" == timeline["1"][0]["create"]["result"]["metadata"]["name"]
    bound = [e for e in timeline["2"] if e.get("observed", {}).get("what") == "bound"]
    assert {"major": 2, "minor": 1} == bound[0]["step"]


def test_a_wrong_operation_of_kep_140_is_told():
    with pytest.raises(ScenarioSyntaxError, match=r"operations\[0\].id2: unknown field"):
        parse_script(KEP.replace("createOperation:", "id2:", 1))
