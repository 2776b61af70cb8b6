"""Ways through the page that lead over several views, and what each view says of odd pods."""

import contextlib
import re

import pytest

from bayplan.inspect import Cluster
from bayplan.page.sources import Living, Picture
from bayplan.testing import make_node, make_pod
from tests.browser.kit import CHROMIUM, PENDING, VIEWS, living, served
from tests.cli.test_up import Up

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
    pytest.mark.xdist_group("page"),
]
BIG = {"cpu": "4", "memory": "8Gi", "pods": "10"}
HUGE = (
    "apply%3DapiVersion%3A v1%0Akind%3A Pod%0Ametadata%3A {name%3A fresh}%0Aspec%3A {containers"
    "%3A [{name%3A c, image%3A i, resources%3A {requests%3A {cpu%3A 99}}}]}"
)


def bare():
    """Pods as manifests have them: without phase and creationTimestamp, names used twice."""
    twins = [
        make_pod("twin", namespace=space).node("n1").req(cpu="1").owner("ReplicaSet", "web").build()
        for space in ("default", "prod")
    ]
    nodes = [make_node(name).capacity(BIG).build() for name in ("n1", "n2")]
    return Picture(Cluster.from_objects([*nodes, *twins, make_pod("large").req(cpu="9").build()]))


@pytest.fixture(scope="module")
def plain():
    with served(bare) as found:
        yield found


def test_what_would_help_is_tried_with_its_command(tab, small):
    page = tab(small).go(f"#/pod/{PENDING}")
    fix = page.get_by_role("listitem").filter(has_text="label node-0001 with pool=spot")
    fix.get_by_role("link", name="Try it").click()
    row = page.get_by_role("table", name="What happens to pods").get_by_role("row").nth(1)
    row.wait_for()
    told = page.locator(".command pre").inner_text()
    chip = page.get_by_role("button", name="Remove patch node/node-0001: labels/pool = spot")

    assert chip.is_visible()
    assert PENDING in row.inner_text()
    assert "starts" in row.inner_text()
    assert told.startswith("bayplan whatif --patch 'node/node-0001=")
    assert "kubectl" not in told


def test_an_answer_is_asked_anew_when_the_scheduler_says_something_else(tab):
    nodes = [make_node(f"n{number}").capacity(BIG).build() for number in range(2)]
    seen = []

    async def read():
        return Cluster.from_objects(seen[-1])

    def say(source, *there):
        head = f"0/{len(there)} nodes are available: {len(there)}"
        text = (
            f"{head} Insufficient cpu. preemption: {head} Preemption is not helpful for scheduling."
        )
        word = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": text,
        }
        seen.append([*there, make_pod("large").req(cpu="9").with_status(conditions=[word]).build()])
        for item in seen[-1]:
            source.board.put(item)

    def alone():
        source = Living("living", read)
        say(source, nodes[0])
        source.board.begin()
        return source

    with served(alone) as where:
        page = tab(where).go("#/pod/default/large")
        page.get_by_text("no node of 1 fits").wait_for()
        where["loop"].call_soon_threadsafe(say, where["source"], *nodes)
        page.get_by_text("no node of 2 fits").wait_for()

        page.get_by_text("word for word").wait_for()


FIND_POD = """(canvas) => {
  const [box, tip] = [canvas.getBoundingClientRect(), document.querySelector(".map .tip")];
  for (let y = 20; y < box.height; y += 9) for (let x = 20; x < box.width; x += 30) {
    const at = {clientX: box.x + x, clientY: box.y + y};
    canvas.dispatchEvent(new PointerEvent("pointermove", at));
    if (!tip.textContent.includes("Running · cpu")) continue;
    canvas.dispatchEvent(new PointerEvent("pointerleave"));
    return at;
  }
  return null;
}"""


def test_a_pod_on_the_map_has_a_tip_and_is_chosen_by_a_click(tab, small):
    page = tab(small).go("#/map")
    canvas = page.get_by_role("application", name=re.compile("Map of the cluster"))
    page.get_by_role("group", name="Key to cards").get_by_text("pod, coloured by owner").wait_for()
    at = canvas.evaluate(FIND_POD)
    tip = page.locator(".map .tip")
    hidden = tip.is_hidden()
    page.mouse.move(at["clientX"], at["clientY"])
    tip.wait_for()
    key = tip.inner_text().split(" ")[0]
    page.mouse.click(at["clientX"], at["clientY"])
    chosen = page.locator(".chosen-pod")
    chosen.wait_for()
    named = chosen.get_by_role("link").inner_text()
    chosen.get_by_role("link").click()
    page.get_by_role("heading", name=key).wait_for()

    assert hidden
    assert key.endswith(named.rpartition("/")[2])


@pytest.mark.long
def test_far_away_there_is_no_key_to_cards(tab, large):
    page = tab(large).go("#/map")
    page.wait_for_function("() => performance.getEntriesByName('map drawn').length > 0")

    assert page.get_by_role("group", name="Key to cards").count() == 0


def test_a_moment_is_kept_in_every_view_until_one_goes_back(tab, story):
    page = tab(story).go("#/time?t=62")
    facts = page.locator("header .facts")
    there = page.locator(".one .facts .dim").last
    there.get_by_text("nodes").wait_for()
    counts = there.inner_text().split(" · ")[:3]
    for name in ("Queue", "Map", "What-if", "Time", "Map"):
        page.get_by_role("navigation").get_by_role("link", name=name).click()
        page.get_by_role("heading", name=name, level=1).wait_for(state="attached")
        page.locator(".when").get_by_text("at 1m02s").wait_for()
        assert page.url.endswith("t=62"), name
        assert [part.replace("\xa0", " ") for part in facts.inner_text().split(" · ")[:3]] == counts
    page.keyboard.press("q")
    page.locator(".when").get_by_text("at 1m02s").wait_for()
    page.get_by_label("Find a node or pod").fill("web-")
    page.get_by_role("option").first.click()
    page.get_by_role("heading", name="Every node").wait_for()
    assert "t=62" in page.url
    page.get_by_role("link", name="back to the end").click()
    page.locator(".when").wait_for(state="hidden")
    page.wait_for_function("() => document.activeElement.tagName === 'H1'")

    assert "t=" not in page.url
    assert "#/pod/" in page.url


def test_a_moment_of_a_snapshot_or_one_that_is_not_known_says_so(tab, small, story):
    page = tab(small).go("#/map?t=5")
    page.get_by_text("6 nodes").first.wait_for()
    assert page.locator(".when").is_hidden()
    page = tab(story, refused=True).go("#/map?run=nobody&t=5")
    page.locator(".when").get_by_text("that moment is not known").wait_for()


def test_another_view_has_its_title_and_its_heading_has_the_focus(tab, small):
    page = tab(small).go("#/map")
    found = {}
    for name in ("Queue", "What-if", "Time", "Map"):
        page.get_by_role("navigation").get_by_role("link", name=name).click()
        page.wait_for_function("() => document.activeElement.tagName === 'H1'")
        page.wait_for_function(f"() => document.activeElement.textContent === '{name}'")
        found[name] = page.title()
    page.get_by_role("region", name="Pending pods").get_by_role("link").nth(1).click()
    page.wait_for_function("() => document.activeElement.tagName === 'H1'")
    pod = page.evaluate("document.activeElement.textContent")
    page.keyboard.press("/")
    page.keyboard.type("node-0002")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.activeElement.textContent === 'node-0002'")

    assert found == {
        name: f"{name} · cluster of 6 · bayplan" for name in ("Queue", "What-if", "Time", "Map")
    }
    assert "/" in pod
    assert page.title() == "node-0002 · Map · cluster of 6 · bayplan"
    assert page.get_by_label("Find a node or pod").input_value() == ""


def test_a_saved_moment_of_a_running_cluster_opens_at_that_moment(tab, chromium, tmp_path):
    with served(living) as where:
        here = tab(where)
        page = here.go("#/time")
        page.get_by_text("(latest)").wait_for()
        pod = make_pod("late").req(cpu="1").node("n1").build()
        where["loop"].call_soon_threadsafe(where["source"].board.put, pod)
        page.locator(".one .facts").get_by_text("1 pod").wait_for()
        page.get_by_role("slider", name="Moment").press("Home")
        page.locator(".one .facts").get_by_text("0 pods").wait_for()
        page.get_by_role("navigation").get_by_role("link", name="Map").click()
        here.arrived("map")
        page.locator("header .facts").get_by_text("0 pods").wait_for()
        with page.expect_download() as download:
            page.get_by_text("Save").click()
        download.value.save_as(tmp_path / "then.html")
        page.goto("about:blank")
    with contextlib.closing(chromium.new_page()) as other:
        other.goto(f"file://{tmp_path / 'then.html'}")
        other.locator(".when").get_by_text("back to now").wait_for()
        other.locator("header .facts").get_by_text("0 pods").wait_for()
        other.get_by_role("link", name="back to now").click()
        other.locator("header .facts").get_by_text("1 pod").wait_for()


@pytest.fixture
def saved(tab, chromium, small, tmp_path):
    page = tab(small).go("#/map")
    with page.expect_download() as download:
        page.get_by_text("Save").click()
    file = tmp_path / "report.html"
    download.value.save_as(file)
    with contextlib.closing(chromium.new_page()) as other:
        other.goto(f"file://{file}")
        other.get_by_text("saved report").first.wait_for()
        yield other


def test_a_report_shows_what_it_holds_of_a_pod_that_was_not_asked_about(saved):
    space, _, name = PENDING.partition("/")
    saved.get_by_role("region", name="Pending pods").get_by_role("link", name=name).click()
    saved.get_by_role("heading", name="What its scheduler said").wait_for()
    text = saved.locator("main").inner_text()

    assert "0/6 nodes are available" in text
    assert f"bayplan why {name} -n {space}" in text
    assert "server does not answer" not in text


def test_a_report_says_that_nothing_was_tried(saved):
    saved.get_by_role("navigation").get_by_role("link", name="What-if").click()
    saved.get_by_text("Nothing was tried").wait_for()

    assert saved.get_by_role("button", name="Try").count() == 0


@pytest.mark.parametrize("width", [390, 1440])
def test_a_new_pod_without_a_node_waits_beside_the_map_and_tells_why(tab, small, width):
    here = tab(small, width=width, height=844)
    page = here.go(f"#/what-if?change={HUGE}")
    beside = page.locator(".waits")
    beside.get_by_text("fresh").wait_for()
    why = page.get_by_role("table", name="What happens to pods").get_by_text("Insufficient cpu")
    why.scroll_into_view_if_needed()
    here.shot(f"6-new-pod-{width}")

    assert why.is_visible()
    assert "5 pending afterwards" in beside.inner_text()
    assert "default/fresh" in beside.inner_text()


def test_pods_of_equal_names_are_told_apart_in_a_what_if(tab, plain):
    page = tab(plain).go("#/what-if?change=drain%3Dn1")
    table = page.get_by_role("table", name="What happens to pods")
    table.get_by_role("row").nth(2).wait_for()
    names = {row.inner_text().split("\n")[0] for row in table.get_by_role("row").all()[1:]}
    page.get_by_label("Change", exact=True).select_option("scale")
    offered = page.locator("datalist option").evaluate_all("items => items.map(i => i.value)")

    assert names == {"default/twin", "prod/twin"}
    assert offered == ["default/replicaset/web", "prod/replicaset/web"]


def test_a_pod_without_phase_and_age_is_not_called_pending_or_new(tab, plain):
    here = tab(plain)
    page = here.go("#/pod/default/twin")
    page.locator(".pod-head .chip").get_by_text("Bound").wait_for()
    page.get_by_text("it runs on n1").wait_for()
    here.go("#/map?node=n1").get_by_role("table", name="Pods of the node").get_by_text(
        "Bound"
    ).first.wait_for()
    row = here.go("#/queue").locator(".vt-body .vt-row").first
    row.wait_for()

    assert "–" in row.inner_text().split("\n")
    assert "no verdict" in row.inner_text()


def test_places_that_nobody_tells_are_not_shown_as_zero(tab, small):
    page = tab(small).go(VIEWS["queue"])
    page.get_by_text("only their scheduler knows").wait_for()
    tiles = page.get_by_role("group", name="Places in the queue").get_by_role("link")

    assert [tile.locator("span").inner_text() for tile in tiles.all()] == [
        "no verdict", "unschedulable", "gated",
    ]  # fmt: skip


def test_the_page_of_up_asks_its_scheduler_for_every_place(tab, tmp_path):
    up = Up(tmp_path, "--nodes=2")
    try:
        url = re.search(r"its page is at (http://\S+)", up.process.last_words())[1]
        page = tab({"url": url}).go("#/queue")
        page.get_by_text("Nothing waits").wait_for()
        spec = {"nodeSelector": {"disk": "ssd"}, "containers": [{"name": "c", "image": "nginx"}]}
        pod = {"metadata": {"name": "picky"}, "spec": spec}
        up.call("POST", "/api/v1/namespaces/default/pods", pod)
        tiles = page.get_by_role("group", name="Places in the queue").get_by_role("link")
        tiles.filter(has_text="no node fits").get_by_text("1", exact=True).wait_for()
        names = [tile.locator("span").inner_text() for tile in tiles.all()]
        page.goto("about:blank")
    finally:
        up.stop()

    assert names == ["active", "backoff", "unschedulable", "gated", "waiting", "binding"]
