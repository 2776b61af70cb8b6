"""How many more fit is what placing them one by one gives, and nothing stays changed."""

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.api import yaml
from bayplan.cli.capacity import command
from bayplan.errors import BayplanError
from bayplan.inspect import Cluster
from bayplan.testing.builders import make_node, make_pod


def nodes(count=4, cpu=4, memory="8Gi"):
    return [
        make_node(f"node-{i}").zone(f"z{i % 2}").capacity(cpu=cpu, memory=memory, pods=20).body()
        for i in range(count)
    ]


@settings(max_examples=30, deadline=None)
@given(
    cpu=st.integers(1, 8), memory=st.integers(1, 8), used=st.lists(st.integers(0, 3), max_size=8)
)
def test_it_is_the_sum_of_what_each_node_holds(cpu, memory, used):
    """For pods that only ask for resources the answer is a division."""
    pods = [make_pod(f"p{i}").req(cpu="500m").with_spec(nodeName=f"node-{n}").body()
            for i, n in enumerate(used)]  # fmt: skip
    cluster = Cluster.from_objects([*nodes(), *pods])
    free = [4000 - 500 * used.count(i) for i in range(4)]
    expected = sum(
        min(c // (cpu * 250), 8 // memory, 20 - used.count(i)) for i, c in enumerate(free)
    )

    found = cluster.capacity(f"cpu={cpu * 250}m,memory={memory}Gi")

    assert found.sets == found.fits[0].together == found.fits[0].alone == expected
    assert sum(found.fits[0].zones.values()) == expected
    cluster.engine.cache.validate()
    assert cluster.engine.cache.pod_count == len(used)


def test_templates_grow_together_in_their_shares():
    found = Cluster.from_objects(nodes(1)).capacity("2xcpu=1", "cpu=1,memory=1Gi")

    assert found.sets == 1
    assert [fit.together for fit in found.fits] == [2, 1]
    assert "1 more set of 2 cpu=1 + 1 cpu=1,memory=1Gi fits" in str(found)
    assert [fit.alone for fit in found.fits] == [4, 4]


def test_the_binding_resource_and_who_strands_the_rest_are_named():
    hog = make_pod("hog").req(cpu="3").owner("ReplicaSet", "hog").with_spec(nodeName="node-0")
    found = Cluster.from_objects([*nodes(1), hog.body()]).capacity("cpu=1,memory=1Gi")

    assert found.sets == 1
    assert found.binding == {"Insufficient cpu": 1}
    (left,) = found.stranded
    assert (left.resource, left.because, left.holders) == (
        "memory",
        "cpu",
        {"replicaset/hog": 3000},
    )
    assert "memory 7Gi on 1 node(s), for lack of cpu" in str(found)


@pytest.mark.parametrize(("keep", "expected"), [("", 16), ("node", 12), ("zone", 8)])
def test_room_to_lose_one_is_kept(keep, expected):
    assert Cluster.from_objects(nodes()).capacity("cpu=1", keep_free=keep).sets == expected


@pytest.mark.parametrize("keep", ["node", "zone"])
def test_what_ends_it_is_told_when_room_is_kept(keep):
    found = Cluster.from_objects(nodes()).capacity("cpu=1", keep_free=keep)

    assert f"What ends it: with one more set, without {keep} " in str(found)
    assert "would find no node: 0/4 nodes are available: " in found.ends
    assert "Insufficient cpu" in found.binding


@pytest.mark.parametrize(("count", "told"), [(4, False), (30, True)])
def test_only_where_some_losses_were_not_tried_it_says_so(count, told):
    found = Cluster.from_objects(nodes(count)).capacity("cpu=1", keep_free="node")

    assert told == ("of 30 nodes the loss of the 25 fullest was tried" in str(found))
    assert told == ("tried" in str(found))


def test_what_ends_it_is_the_room_itself_where_any_loss_is_fine():
    far = make_node("far").zone("z0").capacity(cpu=1, memory="1Gi", pods=20).label(gpu="yes")
    body = make_pod("x").req(cpu="1").with_spec(nodeSelector={"gpu": "yes"}).body()
    cluster = Cluster.from_objects([*nodes(2), far.body(), body | {"kind": "Pod"}])
    found = cluster.capacity("cpu=9", keep_free="node")

    assert (found.sets, found.ends) == (0, "")
    assert found.binding["Insufficient cpu"] == 3


def test_the_count_stops_at_the_limit():
    found = Cluster.from_objects(nodes()).capacity("cpu=1m", limit=7)
    assert (found.limited, found.fits[0].together) == (True, 7)


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("web", 'template "web" is not known; write deployment/web'),
        ("deployment/web", 'deployment "web" is not in namespace "default"'),
        ("cpu=lots", "cpu"),
        ("cpu=-1", 'cpu: "-1" is below 0; write deployment/web'),
        ("0xcpu=1", "must be from 1 to 1000"),
        ("nowhere.yaml", "No such file"),
    ],
)
def test_a_bad_template_is_one_clear_line(template, problem):
    with pytest.raises(BayplanError) as caught:
        Cluster.from_objects(nodes()).capacity(template)
    assert problem in str(caught.value)


def test_the_command_reads_a_file_and_tells_by_its_exit_code(tmp_path):
    cluster, pod = tmp_path / "cluster.yaml", tmp_path / "pod.yaml"
    cluster.write_text(yaml.dump_all([*nodes(), make_pod("x").with_spec(nodeName="node-0").body()]))
    body = make_pod("big").body()
    body["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "3"}}
    pod.write_text(yaml.dump(body))
    arguments = ["--from", str(cluster), str(pod), "-o", "json"]

    enough = CliRunner().invoke(command, [*arguments, "--need", "4"])
    assert enough.exit_code == 0
    assert msgspec.json.decode(enough.output)["fits"][0]["together"] == 4
    short = CliRunner().invoke(command, [*arguments, "--need", "5"])
    assert (1, "not enough: 5 needed, 4 fit\n") == (short.exit_code, short.stderr)
