"""What a reader relies on: nothing pretends to be live, nothing moves away, nothing is lost."""

import re
import signal
import time

import pytest

from bayplan.inspect import Cluster, Origin
from bayplan.page.sources import Living, Picture
from bayplan.testing import make_node, make_pod
from bayplan.testing.servers import Process, bayplan_command
from tests.browser.kit import CHROMIUM, PENDING, living, served
from tests.cli.test_up import Up

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
    pytest.mark.xdist_group("page"),
]
SIZE = {"cpu": "4", "memory": "8Gi", "pods": "10"}


def test_a_cluster_that_does_not_answer_is_not_called_live(tab):
    with served(living) as where:
        source, loop = where["source"], where["loop"]
        here = tab(where, refused=True)
        page = here.go("#/map")
        status = page.locator(".status")
        status.get_by_text("live", exact=True).wait_for()
        since = time.time()
        loop.call_soon_threadsafe(setattr, source, "reach", lambda: since)
        said = time.strftime("%H:%M:%S", time.localtime(since))
        status.get_by_text(f"cluster cut off since {said}, trying again").wait_for()
        here.go("#/pod/default/nobody").get_by_text(f"has not answered since {said}").wait_for()
        page.get_by_role("button", name="Try again").wait_for()
        here.go("#/map").reload()  # whoever opens it now learns it, too
        status.get_by_text(f"cluster cut off since {said}").wait_for()
        loop.call_soon_threadsafe(setattr, source, "reach", lambda: None)
        status.get_by_text("live", exact=True).wait_for()


def halt(up, how):
    up.process.popen.send_signal(how)


def test_a_stopped_api_server_is_told_and_followed_again(tab, tmp_path):
    """The server is stopped, not ended: connections stay open and nothing is said."""
    up = Up(tmp_path, "--nodes=2", "--ui-bind=")
    ui = Process(bayplan_command("ui", f"--kubeconfig={up.kubeconfig}"), tmp_path / "ui.log")
    try:
        ui.wait_until(lambda: "the page is at" in ui.last_words())
        url = re.search(r"http://\S+", ui.last_words())[0]
        page = tab({"url": url}).go("#/map")
        status = page.locator(".status")
        status.get_by_text("live", exact=True).wait_for()
        halt(up, signal.SIGSTOP)
        status.get_by_text("cluster cut off since").wait_for()
        halt(up, signal.SIGCONT)
        status.get_by_text("live", exact=True).wait_for()
        up.call("POST", "/api/v1/namespaces/default/pods", {
            "metadata": {"name": "late"}, "spec": {"containers": [{"name": "c", "image": "nginx"}]},
        })  # fmt: skip
        page.get_by_text("1 pod · 0 pending").wait_for()
        page.goto("about:blank")
    finally:
        halt(up, signal.SIGCONT)
        ui.stop()
        up.stop()


def waits():
    """A cluster where nothing happens but that a pod waits, and that one was bound just now."""

    async def read():
        return Cluster.from_objects([])

    source = Living("waits", read)
    source.board.put(make_node("n1").capacity(SIZE).build())
    made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 5))
    source.board.put(make_pod("slow").created(made).build())
    source.board.begin()
    return source


def test_ages_in_the_queue_grow_while_nothing_happens(tab):
    with served(waits) as where:
        page = tab(where).go("#/queue")
        cell = page.get_by_role("table", name="Pods in the queue").locator(".vt-body .vt-row")
        cell.wait_for()
        first = re.search(r"\d+s", cell.inner_text())[0]
        page.wait_for_function(
            "(first) => !document.querySelector('.vt-body .vt-row').innerText.includes(first)",
            arg=first,
        )
        page.get_by_text(re.compile(r"the longest for \d")).wait_for()
        page.get_by_text(re.compile(r"No pod arrived or was bound in the last \d")).wait_for()


def test_rates_are_those_since_the_page_was_opened_not_the_view(tab):
    with served(waits) as where:
        page = tab(where).go("#/map")
        page.locator(".status").get_by_text("live", exact=True).wait_for()
        for number in range(5):
            pod = make_pod(f"quick-{number}").node("n1").build()  # bound as soon as it is seen
            where["loop"].call_soon_threadsafe(where["source"].board.put, pod)
        page.get_by_text("1 node · 6 pods · 1 pending").wait_for()
        page.get_by_role("navigation").get_by_role("link", name="Queue").click()
        page.get_by_text(re.compile(r"5 (\(.*\) )?arrived and 5 (\(.*\) )?were bound")).wait_for()


def test_views_are_as_they_were_left(tab, small):
    here = tab(small)
    page = here.go("#/map?colour=pool&filter=pool")
    page.get_by_role("button", name="Zoom in").click()
    page.get_by_role("button", name="Zoom in").click()
    held = "document.querySelector('.map canvas').toDataURL()"
    here.settled()
    before = page.evaluate(held)
    links = page.get_by_role("navigation")
    links.get_by_role("link", name="Queue").click()
    page.get_by_role("group", name="Places in the queue").get_by_text("gated").click()
    page.wait_for_function("() => location.hash.includes('place=gated')")
    here.arrived("queue")
    links.get_by_role("link", name="Map").click()
    here.arrived("map")
    page.keyboard.press("q")
    here.arrived("queue")
    assert page.url.endswith("#/queue?place=gated")
    links.get_by_role("link", name="Map").click()
    here.arrived("map")
    page.wait_for_function(f"(before) => {held} === before", arg=before)

    assert "colour=pool" in page.url
    assert page.get_by_label("Label selector").input_value() == "pool"


@pytest.mark.parametrize("how", ["cross", "Escape"])
@pytest.mark.parametrize(("address", "tag"), [("#/map", "CANVAS"), ("#/map?table=1", "DIV")])
def test_the_focus_goes_back_where_a_node_was_chosen(tab, small, address, tag, how):
    page = tab(small).go(f"{address}{'&' if '?' in address else '?'}node=node-0003")
    close = page.get_by_role("link", name="Close the node")
    close.focus()
    page.keyboard.press("Enter" if how == "cross" else "Escape")
    page.get_by_role("region", name="Pending pods").wait_for()

    assert page.evaluate("document.activeElement.tagName") == tag
    assert "node=" not in page.url


def test_a_node_that_goes_while_it_is_looked_at_says_so(tab):
    with served(living) as where:
        page = tab(where).go("#/map?node=n2")
        page.get_by_role("region", name="Node").get_by_text("Ready").wait_for()
        gone = make_node("n2").build()
        where["loop"].call_soon_threadsafe(where["source"].board.delete, gone)
        page.get_by_role("region", name="Node").get_by_text("is not in the cluster").wait_for()


def test_playing_ends_when_the_reader_takes_the_handle(tab, story):
    page = tab(story).go("#/time?t=0")
    page.get_by_role("button", name="Play").click()
    page.wait_for_function("() => parseFloat(document.querySelector('.moment').textContent) > 0")
    slider = page.get_by_role("slider", name="Moment")
    slider.focus()
    slider.press("Home")
    page.get_by_role("button", name="Play").wait_for()
    page.wait_for_function("() => document.querySelector('.moment').textContent === '0s'")
    seen = page.evaluate(
        "() => new Promise(done => { const seen = new Set(); let n = 0;"
        " const look = () => { seen.add(document.querySelector('.moment').textContent);"
        " n++ < 20 ? requestAnimationFrame(look) : done([...seen]); }; look(); })"
    )

    assert seen == ["0s"]


def test_playing_moves_no_map_and_asks_no_address_too_often(tab, story):
    page = tab(story).go("#/time?t=0")
    page.locator(".map canvas").wait_for()
    page.get_by_role("slider", name="Moment").fill("850")  # of 1000: the rest is played in 3 s
    page.evaluate(
        "() => { window.written = []; window.widths = new Set();"
        " const [old, canvas] = [history.replaceState, document.querySelector('.map canvas')];"
        " history.replaceState = (...words) => { written.push(performance.now());"
        " old.apply(history, words); };"
        " new ResizeObserver(() => widths.add(canvas.clientWidth)).observe(canvas); }"
    )
    page.get_by_role("button", name="Play").click()
    page.locator(".moment").get_by_text("(latest)").wait_for()
    times = page.evaluate("window.written")

    assert page.evaluate("window.widths.size") == 1
    assert len(times) <= 10 * (times[-1] - times[0]) / 1000 + 2


def test_both_runs_have_their_own_panel(tab, story):
    page = tab(story).go("#/time?with=seed+7&t=62&node=node-1")
    panels = page.get_by_role("region", name="Node")
    panels.nth(1).get_by_text("in seed 7").wait_for()
    links = [panel.get_by_role("link").evaluate_all("all => all.map(a => a.hash)")
             for panel in panels.all()]  # fmt: skip
    asked = [[hash for hash in found if "#/pod/" in hash] for found in links]
    page.get_by_role("link", name="Close the node").first.click()
    page.get_by_role("heading", name="Pending in seed 7").wait_for()

    assert panels.count() == 0
    assert asked[0]
    assert all("run=" not in hash for hash in asked[0])
    assert all("run=seed+7" in hash for hash in asked[1])


def test_a_pod_that_fits_has_its_funnel_and_its_runner_up(tab, small):
    here = tab(small)
    page = here.go("#/queue")
    page.get_by_role("link", name=re.compile("web-83dfa760")).first.click()
    funnel = page.get_by_role("region", name=re.compile("Nodes by verdict"))
    funnel.get_by_text("had untolerated taint(s)").wait_for()
    text = funnel.inner_text()

    assert re.search(r"\b5\s+fit\b", text)
    assert "node-0000" in text
    assert "not needed" not in text
    assert page.get_by_text(re.compile("ahead of the runner-up|score the same")).count() == 1


def missing():
    nodes = [make_node(name).capacity(SIZE).build() for name in ("n1", "n2")]
    pods = [make_pod("here").node("n1").build(), make_pod("left").node("gone").build()]
    origin = Origin("with a missing node", taken=1_794_000_000.0)
    return Picture(Cluster.from_objects([*nodes, *pods], origin=origin))


def test_pods_of_a_missing_node_are_on_both_maps(tab):
    with served(missing) as where:
        here = tab(where)
        page = here.go("#/what-if?change=drain%3Dn1")
        page.get_by_text("everything that runs").wait_for()
        tips = []
        for canvas in page.locator(".map canvas").all():
            canvas.focus()
            page.keyboard.press("Escape")  # both maps point out the same node
            here.settled()
            told = canvas.locator("xpath=../..").locator("[aria-live]")
            page.keyboard.press("ArrowRight")  # the first of all
            tips.append(told.inner_text())

        assert tips == ["gone · not in the cluster · 1 pod"] * 2


NASTY = [
    "<img src=x onerror=alert(1)>",
    "\"><script>document.title='owned'</script>",
    "x' onmouseover='alert(1)",
    "\u202egnp.exe\u202c",
    "a" * 253,
    "{{7*7}}${7*7}",
]


def nasty():
    """Objects as no API server would take them, but a dump may have them."""
    nodes = [
        make_node(name).capacity(SIZE).label({"zone": name}).taint(name, value=name).build()
        for name in NASTY
    ]
    word = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    pods = [
        make_pod(name, namespace=name).label({name: name}).owner("ReplicaSet", name)
        .with_status(conditions=[{**word, "message": name}]).build()
        for name in NASTY
    ]  # fmt: skip
    bound = [make_pod(f"{name}!").node(name).build() for name in NASTY]
    origin = Origin(NASTY[1], taken=1_794_000_000.0)
    return Picture(Cluster.from_objects([*nodes, *pods, *bound], origin=origin))


@pytest.mark.parametrize("width", [390, 1440])
def test_names_are_text_whatever_they_are(tab, chromium, width, tmp_path):
    with served(nasty) as where:
        here = tab(where, width=width, height=844, refused=True)
        page = here.page
        page.on("dialog", lambda dialog: here.wrong.append(f"dialog {dialog.message}"))
        for name in NASTY:
            code = page.evaluate("encodeURIComponent", name)
            for address in (
                f"#/map?node={code}",
                f"#/map?table=1&filter={code}",
                f"#/map?group={code}&colour=taints",
                f"#/queue?cause={code}",
                f"#/pod/{code}/{code}",
                f"#/time?run={code}&t={code}",
            ):
                here.go(address)
                page.locator("main").wait_for()
            page.keyboard.press("/")
            page.keyboard.type(name[:20])
            page.keyboard.press("Escape")
            found = page.evaluate("document.querySelectorAll('main img, main script').length")
            assert found == 0
            assert "\u202e" not in page.inner_text("body")
        here.go("#/map?colour=owner")
        here.shot(f"nasty-{width}")
        with page.expect_download() as download:
            page.get_by_text("Save").click()
        download.value.save_as(tmp_path / "nasty.html")
        title = page.title()
        other = chromium.new_page()
        other.on("dialog", lambda dialog: here.wrong.append(f"dialog {dialog.message}"))
        other.goto(f"file://{tmp_path / 'nasty.html'}")
        other.get_by_text("6 nodes").first.wait_for()
        assert other.title() == title
        other.close()

        assert title == f"Map · {NASTY[1]} · bayplan"


def test_a_pending_pod_is_reached_and_asked_by_keys_alone(tab, small):
    page = tab(small).go("#/map")
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent").endswith(PENDING.split("/")[1]):
            break
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Every node").wait_for()
    page.keyboard.press("m")
    page.locator(".map-view").wait_for()

    assert page.url.endswith("#/map")
