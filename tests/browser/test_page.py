"""The page in a real Chromium: every view, small and large, by mouse and by keyboard."""

import contextlib
import re
from urllib.parse import unquote

import pytest

from bayplan.inspect import Cluster
from bayplan.page.sources import Living
from bayplan.testing import make_pod
from bayplan.testing.servers import Process, bayplan_command
from tests.browser.kit import CHROMIUM, ENGINE, PENDING, VIEWS, living, served
from tests.cli.test_up import Up

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
    pytest.mark.xdist_group("page"),
]


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_is_shown_at_6_nodes(tab, small, story, scheme, width):
    here = tab(small, scheme=scheme, width=width, height=844 if width < 500 else 900)
    for name, address in VIEWS.items():
        if name == "time":
            continue
        page = here.go(address)
        if name == "pod":
            page.get_by_role("heading", name="Every node").wait_for()
        if name == "what-if":
            page.get_by_text("everything that runs").wait_for()
        here.shot(f"6-{name}-{scheme}-{width}")
    there = tab(story, scheme=scheme, width=width, height=844 if width < 500 else 900)
    there.go("#/time?with=seed+7").locator(".one").get_by_text("seed 7").wait_for()
    there.page.get_by_text("the same load on every node").wait_for()
    there.shot(f"6-time-{scheme}-{width}")

    assert here.page.evaluate("document.documentElement.dataset.theme") == scheme


@pytest.mark.long
@pytest.mark.parametrize(("scheme", "width"), [("dark", 390), ("light", 1440)])
def test_5000_nodes_and_100000_pods_are_shown(tab, large, scheme, width):
    here = tab(large, scheme=scheme, width=width, height=844 if width < 500 else 900)
    board = large["source"].board
    waits = board.key_of(min(board.waiting))
    rack = "#/what-if?change=drain%3Drack%3Da-006"
    for name, address in {**VIEWS, "pod": f"#/pod/{waits}", "what-if": rack}.items():
        page = here.go(address)
        if name == "map":
            here.drawn()
            page.get_by_text("5,000 nodes · 100,400 pods").wait_for()
        if name in ("table", "queue"):
            page.locator(".vt-body .vt-row").first.wait_for()
            rows = page.locator(".vt-body .vt-row").count()
            assert 5 < rows < 80  # only those in sight exist
        if name == "queue":
            page.get_by_text("unschedulable").first.wait_for()
        if name == "pod":
            page.get_by_role("heading", name="Every node (5,000)").wait_for(timeout=ENGINE)
            assert page.locator(".pod-table .vt-body .vt-row").count() < 80
        if name == "what-if":
            page.get_by_text("everything that runs").wait_for(timeout=ENGINE)
        if name == "time":
            page.locator(".one .facts").get_by_text("400 pending").wait_for()
            page.get_by_role("slider", name="Moment").press("Home")
            page.locator(".one .facts").get_by_text("· 0 pending").wait_for()
        here.shot(f"5000-{name}-{scheme}-{width}")


@pytest.mark.parametrize("width", [390, 768, 1100, 1280, 3840])
def test_a_window_of_any_width_is_used_well(tab, small, width):
    here = tab(small, width=width, height=2160 if width > 2000 else 800)
    for name in ("map", "queue", "pod", "what-if"):
        page = here.go(VIEWS[name])
        ends = page.evaluate("document.documentElement.scrollWidth")
        tops = page.locator(".brand, header > button").evaluate_all(
            "items => items.map(item => { const box = item.getBoundingClientRect();"
            " return Math.abs(box.top + box.height / 2 - 20); })"
        )

        assert ends <= width, name
        assert max(tops) < 12, f"{name}: the header's first line is broken"
    here.shot(f"6-what-if-wide-{width}")


def nothing():
    async def read():
        return Cluster.from_objects([])

    return Living("nothing", read)


def test_views_of_an_empty_cluster_say_so(tab):
    with served(nothing) as where:
        here = tab(where)
        for view, text in {
            "map": "This cluster has no nodes yet",
            "queue": "Nothing waits",
            "what-if": "Ask what would happen",
            "time": "0 nodes · 0 pods",
        }.items():
            here.go(f"#/{view}").locator("main").get_by_text(text).first.wait_for()
        here.page.goto("about:blank")


def test_loading_and_failing_are_told_and_can_be_tried_again(tab, small):
    here = tab(small, refused=True)
    page = here.page
    page.route("**/api/cluster", lambda route: None)
    page.reload()
    page.get_by_role("status", name="Loading the cluster").wait_for()
    page.unroute("**/api/cluster")
    page.route("**/api/cluster", lambda route: route.abort())
    page.reload()
    page.get_by_text("The cluster could not be loaded").wait_for()
    page.unroute("**/api/cluster")
    page.get_by_role("button", name="Try again").click()
    page.get_by_text("6 nodes · 45 pods").wait_for()
    here.go("#/pod/default/nobody").get_by_text("is not in namespace").wait_for()
    here.go("#/map?node=gone&colour=none&group=none").get_by_text("6 nodes").first.wait_for()


def test_the_map_is_walked_by_keys_and_told_to_a_screen_reader(tab, small):
    page = tab(small).go("#/map")
    canvas = page.get_by_role("application", name=re.compile("Map of the cluster: 6 nodes"))
    canvas.focus()
    canvas.press("ArrowRight")
    first = page.get_by_role("region", name="Node").get_by_role("heading").first.inner_text()
    canvas.press("ArrowRight")
    page.wait_for_function(
        "(first) => document.querySelector('.panel h2').textContent !== first", arg=first
    )
    second = page.get_by_role("region", name="Node").get_by_role("heading").first.inner_text()
    told = page.locator(".map [aria-live]").inner_text()
    canvas.press("Escape")
    page.get_by_role("region", name="Pending pods").wait_for()

    assert first != second
    assert told.startswith(second)
    assert "cpu" in told


def test_everything_can_be_reached_by_tab(tab, small):
    page = tab(small).go("#/map")
    names = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        names.add(page.evaluate(
            "() => { const e = document.activeElement; return e.getAttribute('aria-label')"
            " || e.textContent?.trim().slice(0, 30) || e.tagName; }"
        ))  # fmt: skip

    assert {"Map", "Queue", "What-if", "Time", "Find a node or pod", "Label selector"} <= names
    assert {"Table", "Zoom in", "Save"} <= names


def test_a_pod_is_found_by_name_and_asked_why(tab, small):
    page = tab(small).go("#/map")
    page.keyboard.press("/")
    page.keyboard.type(PENDING.partition("/")[2])
    page.get_by_role("option").first.wait_for()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Every node").wait_for()

    assert page.get_by_role("table", name="Every node").get_by_role("row").count() == 7
    assert page.get_by_label("Find a node or pod").input_value() == ""
    assert page.evaluate("document.activeElement.tagName") == "H1"


def test_a_filter_and_its_mistake(tab, small):
    page = tab(small).go("#/map?table=1")
    box = page.get_by_label("Label selector")
    box.fill("pool=gpu")
    page.wait_for_function("() => document.querySelectorAll('.vt-body .vt-row').length === 1")
    box.fill("pool in gpu")
    page.get_by_text("is not a label requirement").wait_for()
    box.fill("pool=none")
    page.get_by_text("nothing matches").wait_for()


def test_a_table_is_sorted_and_walked(tab, small):
    page = tab(small).go("#/map?table=1")
    table = page.get_by_role("table", name="Nodes")
    table.get_by_role("button", name="Pods").click()
    counts = [int(text.split("/")[0]) for text in table.locator(".vt-body .vt-row").evaluate_all(
        "rows => rows.map(row => row.children[5].textContent)")]  # fmt: skip
    page.locator(".vt-scroll").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.get_by_role("region", name="Node").wait_for()

    assert counts == sorted(counts, reverse=True)


def test_changes_appear_and_time_goes_back(tab, chromium):
    from playwright.sync_api import TimeoutError as PlaywrightTimeout

    with served(living) as where:
        here = tab(where)
        page = here.go("#/map")
        page.get_by_text("4 nodes · 0 pods").wait_for()
        for number in range(3):
            pod = make_pod(f"web-{number}").req(cpu="1").node("n1").build()
            where["loop"].call_soon_threadsafe(where["source"].board.put, pod)
        page.get_by_text("4 nodes · 3 pods").wait_for()
        here.go("#/time").get_by_text("(latest)").wait_for()
        page.locator(".one .facts").get_by_text("3 pods").wait_for()
        # Three pods may arrive in one picture or in several.
        empty = page.locator(".one .facts").get_by_text("0 pods")
        for _ in range(4):
            page.get_by_role("button", name="Previous change").click()
            with contextlib.suppress(PlaywrightTimeout):
                empty.wait_for(timeout=2000)
                break
        empty.wait_for()

        assert "live" in page.locator(".status").inner_text()


def test_changes_leave_alone_what_somebody_uses(tab):
    with served(living) as where:
        put = where["source"].board.put
        loop = where["loop"]

        def pod(number):
            return make_pod(f"web-{number}").req(cpu=f"{number}m").node("n1").build()

        loop.call_soon_threadsafe(put, pod(900))
        page = tab(where, refused=True).go("#/map?node=n1")
        page.get_by_text("4 nodes · 1 pod").wait_for()
        page.get_by_text("Labels").click()
        link = page.get_by_role("link", name="web-900")
        link.focus()
        link.evaluate("item => { window.held = item; }")
        for number in range(100, 104):
            loop.call_soon_threadsafe(put, pod(number))
        page.get_by_text("4 nodes · 5 pods").wait_for()
        page.get_by_role("region", name="Node").get_by_text("5 / 9").wait_for()

        assert page.locator(".panel details").evaluate("item => item.open")
        assert page.evaluate("document.activeElement === window.held && held.isConnected")
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="default/web-900").wait_for()
        page.get_by_text("No answer").wait_for()  # this cluster cannot be asked


def test_the_past_of_a_running_cluster_is_asked_why(tab, tmp_path):
    up = Up(tmp_path, "--nodes=2", "--ui-bind=")
    ui = Process(bayplan_command("ui", f"--kubeconfig={up.kubeconfig}"), tmp_path / "ui.log")
    try:
        ui.wait_until(lambda: "the page is at" in ui.last_words())
        url = re.search(r"http://\S+", ui.last_words())[0]
        spec = {"nodeSelector": {"disk": "ssd"}, "containers": [{"name": "c", "image": "nginx"}]}
        pod = {"metadata": {"name": "picky"}, "spec": spec}
        here = tab({"url": url})
        page = here.go("#/time")
        page.get_by_text("2 nodes · 0 pods · 0 pending").first.wait_for()
        up.call("POST", "/api/v1/namespaces/default/pods", pod)
        page.get_by_text("1 pending").first.wait_for()
        pending = page.get_by_role("region", name="Pending pods")
        pending.get_by_text("node affinity").wait_for()
        page.get_by_role("button", name="Previous change").click()
        page.get_by_role("button", name="Next change").click()
        pending.get_by_text("node affinity").wait_for()
        bookmark = page.url
        [first, _] = up.names("/api/v1/nodes")
        node = up.call("GET", f"/api/v1/nodes/{first}")
        node["metadata"]["labels"]["disk"] = "ssd"
        up.call("PUT", f"/api/v1/nodes/{first}", node)
        here.go("#/time").get_by_text("1 pod · 0 pending").first.wait_for()
        page.goto(bookmark)
        pending.get_by_role("link", name="picky").click()
        page.get_by_text("no node of 2 fits").wait_for()
        page.locator(".when").get_by_text("back to now").wait_for()
        page.goto(here.base + "#/pod/default/picky")
        page.get_by_text(f"on {first}").first.wait_for()
        page.goto("about:blank")
    finally:
        ui.stop()
        up.stop()


def test_a_what_if_is_asked_in_the_form_and_kept_in_the_address(tab, small):
    page = tab(small, refused=True).go("#/what-if")
    page.get_by_text("Ask what would happen").wait_for()
    page.get_by_label("What", exact=True).fill("node-0001")
    page.get_by_role("button", name="Try").click()
    page.get_by_text("bayplan whatif --drain node-0001").wait_for()
    page.reload()
    page.get_by_text("bayplan whatif --drain node-0001").wait_for()
    page.get_by_label("What", exact=True).fill("nobody")
    page.get_by_role("button", name="Try").click()
    page.get_by_text("This cannot be tried").wait_for()


@pytest.mark.parametrize("view", ["map", "queue", "pod", "what-if"])
def test_a_saved_view_opens_without_a_server(tab, chromium, small, view, tmp_path):
    page = tab(small).go(VIEWS[view])
    if view == "what-if":
        page.get_by_text("everything that runs").wait_for()
    with page.expect_download() as download:
        page.get_by_text("Save").click()
    file = tmp_path / "report.html"
    download.value.save_as(file)
    asked, wrong = [], []
    with contextlib.closing(chromium.new_page()) as other:
        other.on("request", lambda request: asked.append(request.url))
        other.on("console", lambda message: wrong.append(message.text))
        other.on("pageerror", lambda error: wrong.append(str(error)))
        other.goto(f"file://{file}")
        other.locator("main > .view").wait_for()
        other.get_by_text("6 nodes · 45 pods").wait_for()
        if view == "pod":
            other.get_by_role("heading", name="Every node").wait_for()
        if view == "what-if":
            other.get_by_text("everything that runs").wait_for()

    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert wrong == []


def test_a_scenarios_report_goes_back_in_time_without_a_server(tab, chromium, story, tmp_path):
    page = tab(story).go("#/time")
    page.get_by_text("(latest)").wait_for()
    with page.expect_download() as download:
        page.get_by_text("Save").click()
    file = tmp_path / "run.html"
    download.value.save_as(file)
    with contextlib.closing(chromium.new_page()) as other:
        other.goto(f"file://{file}")
        other.get_by_text("(latest)").wait_for()
        latest = other.locator(".one .facts").inner_text()
        slider = other.get_by_role("slider", name="Moment")
        slider.focus()
        slider.press("Home")
        other.wait_for_function(
            "() => !document.querySelector('.moment').textContent.includes('latest')"
        )

        assert other.locator(".one .facts").inner_text() != latest


def test_a_moment_is_asked_why_and_led_back_to(tab, story):
    page = tab(story).go("#/time?t=30&node=node-1")
    page.get_by_role("table", name="Pods of the node").get_by_role("link").first.click()
    page.locator(".when").get_by_text("at 30s").wait_for()
    page.get_by_role("heading", name="Every node").wait_for()
    page.get_by_role("link", name="at 30s").click()
    page.locator(".moment").get_by_text("30s").wait_for()

    assert "passed" in page.locator(".outcome summary").inner_text()


def test_a_view_can_be_left_while_time_plays(tab, story):
    page = tab(story).go("#/time?t=0")
    page.get_by_role("button", name="Play").click()
    page.wait_for_function("() => !location.hash.endsWith('t=0')")
    page.get_by_role("link", name="Map").click()
    page.locator(".time-view").wait_for(state="detached")

    assert "#/map" in page.url


@pytest.mark.parametrize("t", ["abc", "1e9", "-5"])
def test_a_moment_outside_of_the_history_is_its_nearest(tab, story, t):
    page = tab(story).go(f"#/time?t={t}")
    shown = page.locator(".moment")
    shown.wait_for()

    assert "NaN" not in shown.inner_text()
    assert "-" not in shown.inner_text()
    assert "277777" not in shown.inner_text()


def test_new_nodes_and_lost_ones_are_on_the_map_afterwards(tab, small):
    here = tab(small)
    page = here.go("#/what-if?change=add%3D2xnode-0001%0A%0Aremove%3Dnode-0002&colour=state")
    page.get_by_role("application", name=re.compile("Before: 6 nodes")).wait_for()
    page.get_by_role("application", name=re.compile("After: 8 nodes")).wait_for()
    page.get_by_text("7 usable nodes").wait_for()
    page.get_by_label("Group").select_option("pool")
    page.wait_for_function("() => location.hash.includes('group=pool')")

    assert "add=2xnode-0001" in unquote(page.url)


def test_the_scheduler_is_changed_in_the_form(tab, small):
    page = tab(small).go("#/what-if")
    page.get_by_label("Change", exact=True).select_option("config")
    page.get_by_label("Configuration").fill("profiles:\n- schedulerName: default-scheduler")
    page.get_by_role("button", name="Try").click()
    page.get_by_text("bayplan whatif --config scheduler.yaml").wait_for()


@pytest.mark.parametrize("view", ["queue", "pod", "what-if"])
def test_every_view_has_a_way_in_for_keys_and_readers(tab, small, view):
    page = tab(small).go(VIEWS[view])
    page.reload()  # as whoever opens a bookmark
    page.get_by_role("table").first.wait_for()
    page.keyboard.press("Tab")
    skip = page.evaluate("document.activeElement.textContent")
    page.keyboard.press("Enter")
    reached = page.evaluate("document.activeElement.id")
    names = [item.get_attribute("aria-label") for item in page.get_by_role("table").all()]

    assert skip == "Skip to the view"
    assert reached == "main"
    assert all(names)


def test_a_server_that_is_gone_is_told(tab, chromium):
    with served(living) as where:
        page = tab(where, refused=True).go("#/map")
        page.get_by_text("4 nodes").first.wait_for()
    page.get_by_text("connection lost since").wait_for()
