// The page's modules without a browser: data, layout, colours, addresses, history.

import assert from "node:assert/strict";
import { test } from "node:test";

import { aftermath } from "../../../src/bayplan/page/static/aftermath.js";
import { centred, fit, kept, largest, zoom } from "../../../src/bayplan/page/static/camera.js";
import { Cluster } from "../../../src/bayplan/page/static/cluster.js";
import { colouring, ownerName, share } from "../../../src/bayplan/page/static/colouring.js";
import { card, plan, podAt, podGrid } from "../../../src/bayplan/page/static/card.js";
import { filtered, groupKeys, search } from "../../../src/bayplan/page/static/groups.js";
import { ticks } from "../../../src/bayplan/page/static/chart.js";
import { differing } from "../../../src/bayplan/page/static/differing.js";
import { History, Rates } from "../../../src/bayplan/page/static/history.js";
import { best, runnerUp, verdicts } from "../../../src/bayplan/page/static/judging.js";
import { gather, hit, layout, towards } from "../../../src/bayplan/page/static/layout.js";
import { step, STEPS } from "../../../src/bayplan/page/static/palette.js";
import { titled } from "../../../src/bayplan/page/static/changes.js";
import { groupsOf } from "../../../src/bayplan/page/static/owners.js";
import { momentOf, textOf, timeOf, told } from "../../../src/bayplan/page/static/moments.js";
import { stateOf } from "../../../src/bayplan/page/static/panel.js";
import { causeOf, causes, longest, paceText, places, sizes } from "../../../src/bayplan/page/static/queueing.js";
import { formatRoute, parseRoute } from "../../../src/bayplan/page/static/router.js";
import { matches, parse } from "../../../src/bayplan/page/static/selector.js";
import { clusterOf, requestOf } from "../../../src/bayplan/page/static/sites.js";
import { Store } from "../../../src/bayplan/page/static/store.js";
import * as units from "../../../src/bayplan/page/static/units.js";
import { unpack } from "../../../src/bayplan/page/static/wire.js";

const NODE = ["name", "labels", "cpu", "memory", "pods", "gpu", "flags", "taints", "conditions", "more", "created"];
const POD = ["name", "namespace", "node", "cpu", "memory", "gpu", "priority", "phase", "place", "owner", "labels", "created", "nominated", "flags", "message"];
const PLACES = ["bound", "active", "backoff", "unschedulable", "gated", "waiting", "binding", "finished"];

/** @param {string} name @param {object} [more] */
const node = (name, more = {}) => NODE.map((field) => ({ name, labels: 1, cpu: 4000, memory: 8e9, pods: 10, flags: 1, ...more })[field] ?? 0);
/** @param {string} name @param {object} [more] */
const pod = (name, more = {}) => POD.map((field) => ({ name, namespace: 2, cpu: 1000, memory: 1e9, message: "", ...more })[field] ?? 0);

function table(fields, rows) {
  const columns = {};
  fields.forEach((field, i) => {
    const column = rows.map((row) => row[i]);
    if (field === "name") columns.name = column.join("\n");
    else if (field === "message") columns.message = Object.fromEntries(column.map((text, slot) => [slot, text]).filter(([, text]) => text));
    else columns[field] = column;
  });
  return { count: rows.length, columns };
}

function wire(nodes, pods, more = {}) {
  return {
    name: "test", kind: "cluster", live: false, runs: [], number: 0, epoch: 0, time: 1000, phases: ["Pending", "Running"], places: PLACES,
    fields: [NODE, POD], texts: ["", "kubernetes.io/hostname=*,zone=a", "default", "app=web", "zone=b", "ReplicaSet/web-7d9f8b6c5"],
    nodes: table(NODE, nodes), pods: table(POD, pods), ...more,
  };
}

const two = () => new Cluster(wire([node("n1"), node("n2", { labels: 4 })], [pod("a", { node: 1 }), pod("b", { node: 1, labels: 3 }), pod("c", { place: 3, message: "0/2 nodes are available: 2 Insufficient cpu." })]));

/** Everything that is counted, from scratch. */
function recounted(cluster) {
  const before = JSON.stringify([...cluster.used.cpu.slice(0, cluster.nodes.count), [...cluster.waiting].sort()]);
  const lists = cluster.nodes.name.map((_, slot) => cluster.podsOn(slot).sort());
  cluster.recount();
  const after = JSON.stringify([...cluster.used.cpu.slice(0, cluster.nodes.count), [...cluster.waiting].sort()]);
  assert.equal(before, after);
  assert.deepEqual(lists, cluster.nodes.name.map((_, slot) => cluster.podsOn(slot).sort()));
}

test("what is used on a node follows from its pods", () => {
  const cluster = two();
  assert.equal(cluster.used.cpu[0], 2000);
  assert.deepEqual(cluster.podsOn(0).sort(), [0, 1]);
  assert.deepEqual([...cluster.waiting], [2]);
  assert.equal(cluster.label(0, "kubernetes.io/hostname"), "n1");
  assert.equal(cluster.podSlot("default/b"), 1);
  assert.equal(cluster.podSlot("other/b"), -1);
});

test("changes keep every sum and list right", () => {
  let seed = 7;
  const random = (n) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
  const cluster = two();
  for (let i = 0; i < 500; i++) {
    const slot = random(90);
    const row = random(4) === 0 ? null : pod(`p${random(9)}`, { node: random(3), place: random(3) ? 0 : 7 });
    cluster.apply([[1, slot, row]]);
  }
  recounted(cluster);
});

test("a frame brings new texts before the rows that use them", () => {
  const cluster = two();
  cluster.follow({ number: 1, time: 1001, texts: [6, ["prod"]], changes: [[1, 3, pod("d", { namespace: 6 })]] });
  assert.equal(cluster.podKey(3), "prod/d");
  assert.equal(cluster.number, 1);
});

test("bytes are read as they were written", () => {
  const head = { nodes: { count: 3, columns: { name: "a\nb\nc", cpu: { type: "u2", at: 0, base: 5, scale: 100 }, memory: { base: 7 } } }, pods: { count: 0, columns: { name: "" } } };
  let line = `${JSON.stringify(head)}\n`;
  line = " ".repeat((8 - (line.length % 8)) % 8) + line;
  const body = new Uint8Array(line.length + 8);
  body.set(new TextEncoder().encode(line));
  body.set(new Uint8Array(new Uint16Array([0, 1, 600]).buffer), line.length);
  const found = unpack(body.buffer);
  assert.deepEqual([...found.nodes.columns.cpu], [5, 105, 60005]);
  assert.deepEqual([...found.nodes.columns.memory], [7, 7, 7]);
});

test("every moment of a history can be had, also backwards", () => {
  const history = new History({
    ...wire([node("n1")], []), time: 0, end: 10,
    frames: [[1, [[1, 0, pod("a", { place: 1 })]]], [2, [[1, 0, pod("a", { node: 1 })]]], [5, [[1, 0, pod("a", { node: 1, flags: 2 })]]], [6, [[1, 0, null]]]],
  });
  assert.equal(history.at(3).used.pods[0], 1);
  assert.equal(history.at(1.5).waiting.size, 1);
  assert.equal(history.at(9).used.pods[0], 0);
  assert.equal(history.at(0).waiting.size, 0);
  assert.equal(history.neighbour(2, 1), 5);
  assert.equal(history.neighbour(2, -1), 1);
  assert.equal(history.neighbour(2.0004, -1), 1, "an address keeps whole milliseconds");
  const series = history.series(10);
  assert.deepEqual([...series.arrivals], [0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
  assert.deepEqual([...series.bindings], [0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
  assert.deepEqual([...series.evictions], [0, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
  assert.equal(series.pending[1], 1);
  assert.equal(series.cpu[3], 0.25);
});

test("a history that grows for ever is folded, and the present stays", () => {
  const history = new History({ ...wire([node("n1")], []), time: 0, end: 0, frames: [] });
  for (let i = 0; i < 20_050; i++) history.add({ number: i + 1, time: i, texts: [6, []], changes: [[1, i % 50, pod(`p${i}`, { node: 1 })]] });
  assert.ok(history.frames.length <= 20_000);
  assert.equal(history.at(1e9).used.pods[0], 50);
});

test("all nodes get a cell of their own, inside the window", () => {
  for (const counts of [[6], [1], [1667, 1667, 1666], Array(40).fill(12), [500, 3, 1]]) {
    let slot = 0;
    const groups = counts.map((n, i) => ({ name: `g${i}`, slots: Array.from({ length: n }, () => slot++) }));
    const found = layout(groups, 1000, 700);
    assert.equal(found.where.size, slot);
    const cells = new Set([...found.where.values()].map(({ x, y }) => `${x.toFixed(3)} ${y.toFixed(3)}`));
    assert.equal(cells.size, slot);
    for (const [member, at] of found.where) assert.equal(hit(found, at.x + 1, at.y + 1), member);
    const scale = Math.min(1000 / found.width, 700 / found.height, largest(1000));
    assert.ok(slot < 100 || scale * scale * 20 * slot > 0.45 * 700_000, `${counts}: half of the window is used`);
  }
});

test("arrow keys reach neighbours", () => {
  const found = layout([{ name: "", slots: [0, 1, 2, 3] }], 400, 400);
  const right = towards(found, 0, 1, 0);
  assert.equal(towards(found, right, -1, 0), 0);
  assert.notEqual(towards(found, 0, 0, 1), 0);
  assert.equal(towards(found, -1, 1, 0), 0);
});

test("groups, filter and search", () => {
  const cluster = two();
  assert.deepEqual(groupKeys(cluster), ["zone"]);
  assert.deepEqual(gather([0, 1], (slot) => cluster.label(slot, "zone")).map((group) => group.name), ["a", "b"]);
  assert.deepEqual([...filtered(cluster, "zone=b", "nodes")], [1]);
  assert.deepEqual([...filtered(cluster, "app=web", "pods")], [0]);
  assert.equal(filtered(cluster, " ", "nodes"), null);
  assert.equal(search(cluster, "N2", 5)[0].name, "n2");
  assert.equal(search(cluster, "default/b", 5)[0].name, "default/b");
});

test("selectors as kubectl reads them", () => {
  const labels = new Map([["app", "web"], ["tier", "front"]]);
  for (const [text, expected] of [["app=web", true], ["app==web", true], ["app!=web", false], ["x!=1", true], ["app in (api, web)", true], ["app notin (web)", false], ["tier", true], ["!tier", false], ["app=web,!x", true], ["", true]]) {
    assert.equal(matches(parse(text), labels), expected, text);
  }
  for (const text of ["=a", "app in web", "a b"]) assert.throws(() => parse(text), /label requirement/, text);
});

test("colours tell shares and names", () => {
  assert.equal(step(0), 0);
  assert.equal(step(NaN), 0);
  assert.equal(step(1), STEPS - 2);
  assert.equal(step(1.5), STEPS - 1);
  const cluster = two();
  const found = colouring(cluster, [0, 1], "cpu", "light");
  assert.ok(found.of(0) > found.of(1));
  assert.equal(found.keys.reduce((sum, key) => sum + key.nodes, 0), 2);
  for (const mode of ["memory", "gpu", "pods", "free", "taints", "pool", "owner", "state"]) {
    const other = colouring(cluster, [0, 1], mode, "dark");
    assert.ok([0, 1].every((slot) => other.colours[other.of(slot)]), mode);
    assert.equal(other.keys.reduce((sum, key) => sum + key.nodes, 0), 2, mode);
  }
  assert.equal(ownerName("ReplicaSet/web-7d9f8b6c5"), "web");
  assert.equal(ownerName("StatefulSet/db"), "db");
});

test("a node that has nothing has no share of it", () => {
  const cluster = new Cluster(wire([node("empty", { cpu: 0 }), node("gone", { cpu: 0, flags: 4 })], [pod("left", { node: 2 })]));
  assert.deepEqual([0, 1].map((slot) => units.percent(share(cluster, slot, "cpu"), 1)), ["–", "–"]);
  assert.deepEqual([0, 1].map(colouring(cluster, [0, 1], "cpu", "light").of), [0, STEPS - 1]);
});

test("causes are equal whatever the numbers", () => {
  const text = "0/5 nodes are available: 2 Insufficient cpu, 3 node(s) had untolerated taint(s). preemption: 0/5 nodes are available: 5 No preemption victims found.";
  assert.equal(causeOf(text), "Insufficient cpu · had untolerated taint(s)");
  assert.equal(causeOf(text.replaceAll("5", "6").replace("2 I", "3 I")), causeOf(text));
  const cluster = two();
  assert.equal(causes(cluster)[0].title, "Insufficient cpu");
  assert.equal(sizes(cluster).unschedulable, 1);
});

test("rates count what was bound and what came, also within one frame, and forget it after a minute", () => {
  const cluster = two();
  const rates = new Rates();
  rates.begin(1000);
  const frame = { number: 1, time: 1010, texts: [6, []], changes: [[1, 2, pod("c", { node: 2 })], [1, 3, pod("d", { node: 1 })], [1, 4, pod("e", { place: 1 })]] };
  rates.see(cluster, frame);
  cluster.follow(frame);
  assert.deepEqual(rates.of(1020), { arrived: 2, bound: 2, span: 20 });
  assert.deepEqual(rates.of(1100), { arrived: 0, bound: 0, span: 60 });
});

test("a pace is told with the span that was seen", () => {
  assert.equal(paceText({ arrived: 2, bound: 1, span: 20 }, "last"), "2 arrived and 1 was bound in the last 20s.");
  assert.equal(paceText({ arrived: 6000, bound: 3000, span: 60 }, "last"), "6,000 (100.0/s) arrived and 3,000 (50.0/s) were bound in the last minute.");
  assert.equal(paceText({ arrived: 0, bound: 0, span: 60 }, "preceding"), "No pod arrived or was bound in the preceding minute.");
  assert.equal(paceText({ arrived: 3, bound: 3, span: 0 }, "last"), "");
});

test("the longest wait is told of every place", () => {
  const cluster = two();
  cluster.apply([[1, 3, pod("old", { place: 3, created: 400 })], [1, 4, pod("held", { place: 4 })]]);
  assert.deepEqual([longest(cluster).unschedulable, longest(cluster).gated], [600, -1]);
  cluster.time += 30;
  assert.equal(longest(cluster).unschedulable, 630);
});

test("nodes are told by verdict also where some fit", () => {
  const judged = { plugins: ["Fit", "Image"], scored: [["a", 90, 80, 10], ["b", 95, 95, 0], ["c", 20, 10, 10]], reasons: ["Taint: node(s) had untolerated taint(s)", "odd"], rejected: [["d", 0], ["e", 1], ["f", 0]] };
  assert.deepEqual(verdicts(judged, 8).map(({ nodes, plugin, reasons }) => [nodes, plugin, ...reasons]),
    [[3, "", "fit"], [2, "Taint", "node(s) had untolerated taint(s)"], [1, "", "odd"], [2, "", "not looked at, as enough fit"]]);
  assert.deepEqual(best(judged, "c").map(({ node }) => node), ["b", "a", "c"]);
});

test("the runner-up is compared with the node that was chosen", () => {
  const score = (node, fit, image) => ({ node, total: fit + image, plugins: { Fit: fit, Image: image } });
  assert.equal(runnerUp([score("a", 90, 5), score("b", 80, 10)], "a", false), "a is 5 ahead of the runner-up b: Fit +10, Image −5.");
  assert.equal(runnerUp([score("a", 90, 5), score("b", 80, 10)], "b", true), "a is 5 ahead of b now.");
  assert.equal(runnerUp([score("a", 90, 0), score("b", 80, 10)], "b", false), "b and a score the same; the scheduler draws between equals.");
  assert.equal(runnerUp([score("a", 90, 0)], "a", false), "a is the only node that fits.");
});

test("a node that is not there has no bars but its pods", () => {
  const drawn = [];
  const c = new Proxy({ font: "", measureText: () => ({ width: 10 }) }, { get: (target, key) => target[key] ?? ((...words) => drawn.push([key, ...words])), set: () => true });
  const cluster = new Cluster(wire([node("gone", { cpu: 0, memory: 0, flags: 4 })], [pod("left", { node: 1 })]));
  const scene = { cluster, theme: "light", colouring: colouring(cluster, [0], "cpu", "light"), pod: -1 };
  card(c, scene, 0, 0, 0, 300, 240);
  const texts = drawn.filter(([key]) => key === "fillText").map(([, text]) => text);
  assert.deepEqual(texts, ["gone", "not in the cluster", "left"]);
});

test("addresses keep what they are given", () => {
  const text = formatRoute("pod", "ns/a b", { t: "1.5", none: undefined });
  assert.deepEqual(parseRoute(text), { view: "pod", path: "ns/a b", query: { t: "1.5" } });
  assert.equal(parseRoute("").view, "map");
  assert.equal(parseRoute("#/nonsense").view, "map");
  assert.equal(parseRoute("#/pod/%ZZ").path, "%ZZ");
});

test("units are Kubernetes'", () => {
  assert.deepEqual([units.cpu(0), units.cpu(250), units.cpu(1500), units.cpu(64000)], ["0", "250m", "1500m", "64"]);
  assert.deepEqual([units.cpu(3960), units.cpu(4000), units.memory(7.98 * 2 ** 30), units.memory(8 * 2 ** 30)], ["3960m", "4", "7.9Gi", "8Gi"]);
  assert.deepEqual([units.percent(3999, 4000), units.percent(4000, 4000), units.percent(4001, 4000)], ["99%", "100%", ">100%"]);
  assert.deepEqual([units.memory(0), units.memory(536870912), units.memory(1.5 * 2 ** 30)], ["0", "512Mi", "1.5Gi"]);
  assert.deepEqual([units.percent(1, 1000), units.percent(0, 10), units.percent(5, 0), units.percent(5, 10)], ["<1%", "0%", "–", "50%"]);
  assert.deepEqual([units.age(45), units.age(130), units.age(7200), units.age(11400), units.age(5 * 86400)], ["45s", "2m10s", "120m", "3h10m", "5d"]);
});

test("marks that turn letters round are shown as such", () => {
  assert.equal(units.plain("\u202egnp.exe\u202c"), "\ufffdgnp.exe\ufffd");
  assert.equal(units.plain("größe-名前"), "größe-名前");
});

test("the camera fits, zooms about a point and stays in sight", () => {
  const world = { width: 100, height: 50 };
  const view = fit(world, 1000, 600);
  assert.ok(view.scale * 100 <= 1000);
  const near = zoom(view, 2, 300, 200, view.scale);
  const before = (300 - view.x) / view.scale;
  assert.ok(Math.abs((300 - near.x) / near.scale - before) < 1e-9);
  assert.ok(kept({ ...view, x: 1e6 }, world, 1000, 600).x < 1000);
});

test("pods fit into their cell", () => {
  for (const [n, wide, tall] of [[1, 100, 60], [30, 100, 60], [110, 90, 40], [250, 60, 30]]) {
    const grid = podGrid(n, wide, tall);
    assert.ok(grid.columns * grid.wide <= wide + 1e-6);
    assert.ok(Math.ceil(n / grid.columns) * grid.tall <= tall + grid.tall, `${n}`);
  }
});

test("pods get their names where there is room for lines", () => {
  assert.deepEqual([[1, 100, 60], [4, 200, 100], [20, 430, 290], [20, 200, 100]].map(([n, wide, tall]) => podGrid(n, wide, tall).named), [true, true, true, false]);
  assert.equal(podGrid(40, 430, 290).columns, 2);
  assert.equal(plan(70, 56, 2).pods, null, "no room for pods");
  assert.ok(plan(230, 184, 3).labelled);
});

test("the pod under a pointer is the one that is drawn there", () => {
  for (const scale of [20, 46, 90, 120]) {
    const pods = Array.from({ length: 30 }, (_, i) => pod(`p${i}`, { node: 1, owner: i % 3 ? 5 : 0 }));
    const cluster = new Cluster(wire([node("n1"), node("n2")], pods));
    const scene = { cluster, layout: layout([{ name: "", slots: [0, 1] }], 400, 300), view: { scale, x: 7, y: 9 } };
    const where = plan(5 * scale - 6, 4 * scale - 6, 2);
    const box = where.pods;
    const grid = podGrid(30, box.wide, box.tall, where.text);
    const seen = new Set();
    for (let i = 0; i < 30; i++) {
      const x = 7 + box.x + ((i % grid.columns) + 0.5) * grid.wide;
      const y = 9 + box.y + (Math.floor(i / grid.columns) + 0.5) * grid.tall;
      seen.add(podAt(scene, 0, x, y));
    }
    seen.delete(-1);
    assert.equal(seen.size, 30, `at scale ${scale}`);
    assert.equal(podAt(scene, 0, 8, 10), -1, "the name of the node is no pod");
    assert.equal(podAt(scene, 1, 8 + 5 * scale + box.x, 9 + box.y + 2), -1, "a node without pods");
  }
});

test("a moment is the same in every view: of a day in a cluster, since the beginning of a run", () => {
  const history = new History({ ...wire([node("n1")], []), time: 1000, end: 1060, number: 0, frames: [] });
  assert.equal(timeOf(history, "1030.5", true), 1030.5);
  assert.equal(timeOf(history, "30.5", false), 1030.5);
  assert.equal(timeOf(history, "99999", false), 1060);
  assert.equal(timeOf(history, "-3", false), 1000);
  assert.equal(timeOf(history, "abc", false), undefined);
  assert.equal(timeOf(history, undefined, true), undefined);
  for (const wall of [true, false]) assert.ok(timeOf(history, textOf(history, 1012.3456789, wall), wall) >= 1012.3456789);
  assert.equal(told(history, 1030, false), "30s");
  assert.match(told(history, 1030, true), /^\d\d:\d\d:\d\d$/);
  assert.deepEqual(momentOf({ t: "3", run: "", node: "n" }), { run: undefined, t: "3" });
});

test("a history knows the texts of what comes later, and takes nothing twice", () => {
  const history = new History({ ...wire([node("n1")], []), time: 0, end: 0, frames: [] });
  const frame = { number: 1, time: 5, texts: [6, ["prod"]], changes: [[1, 0, pod("a", { namespace: 6, node: 1 })]] };
  history.add(frame);
  history.add(frame);
  assert.equal(history.frames.length, 1);
  assert.equal(history.at(5).podKey(0), "prod/a");
});

test("rates are those of the minute before a moment", () => {
  const frames = [10, 70, 100, 101].map((time, i) => [time, [[1, i, pod(`p${i}`, i % 2 ? { node: 1 } : { place: 1 })]]]);
  const history = new History({ ...wire([node("n1")], []), time: 0, end: 200, frames });
  assert.deepEqual(history.pace(100), { arrived: 2, bound: 1, span: 60 });
  assert.deepEqual(history.pace(20), { arrived: 1, bound: 0, span: 20 });
  assert.deepEqual(history.pace(199), { arrived: 0, bound: 0, span: 60 });
});

test("places that only a scheduler knows are no zeros elsewhere", () => {
  const cluster = two();
  assert.deepEqual(places(cluster).map(({ name }) => name), ["active", "unschedulable", "gated"]);
  const asked = new Cluster(wire([], [], { queue: "scheduler" }));
  assert.equal(places(asked).length, 6);
});

test("a pod without a phase is where it is", () => {
  const cluster = new Cluster(wire([node("n1")], [pod("on", { node: 1 }), pod("off", { place: 1 }), pod("runs", { node: 1, phase: 2 })], { phases: ["", "Pending", "Running"] }));
  assert.deepEqual([0, 1, 2].map((slot) => stateOf(cluster, slot)), ["Bound", "active", "Running"]);
});

test("a change is said in a few words", () => {
  assert.equal(titled("drain=zone=a"), "drain zone=a");
  assert.equal(titled('patch=node/a=[{"op":"add","path":"/metadata/labels/example.com~1disk","value":"ssd"}]'), "patch node/a: labels/example.com/disk = ssd");
  assert.equal(titled('patch=default/pod/p=[{"op":"remove","path":"/spec/nodeSelector/pool"}]'), "patch default/pod/p: no nodeSelector/pool");
  assert.equal(titled("patch=pod/p=nonsense"), "patch pod/p=nonsense");
  assert.equal(titled("apply=apiVersion: v1\nkind: Pod\nmetadata: {name: fresh}\n---\nkind: Node\nmetadata:\n  name: n.1"), "apply Pod fresh, Node n.1");
  assert.equal(titled(`config=${"a: b\n".repeat(50)}`).length, 60);
});

test("owners are offered with their namespaces", () => {
  const cluster = new Cluster(wire([], [pod("a", { owner: 5 }), pod("b", { owner: 5, namespace: 6 }), pod("c", { owner: 7 }), pod("d")], {
    texts: ["", "", "default", "", "", "ReplicaSet/web-7d9f8b6c5", "prod", "StatefulSet/db"],
  }));
  assert.deepEqual(groupsOf(cluster), ["default/deployment/web", "default/statefulset/db", "prod/deployment/web"]);
});

test("after a what-if pods are where it says, and the cluster before is as it was", () => {
  const before = two();
  const { cluster, moves } = aftermath(before, {
    changes: ["drain n1"], ok: false, moves: [{ pod: "default/a", owner: "", from: "n1", to: "n2" }, { pod: "default/a2", owner: "", from: "n1", to: "n2" }], starts: [{ pod: "default/c", owner: "", node: "new-1", new: false }],
    stuck: [{ pod: "default/b", owner: "", from: "n1", state: "pending", reason: "" }], evictions: [], deleted: [], commands: [], notes: [],
    before: { nodes: { total: 2, usable: 2 }, running: 2, pending: 1 }, after: { nodes: { total: 3, usable: 2 }, running: 2, pending: 1 },
  }, {
    texts: ["", "zone=c", "default"],
    nodes: [node("n1", { flags: 3, labels: 0 }), node("new-1")],
    pods: [["default/a", pod("a", { node: "n2" })], ["default/b", pod("b", { node: "", place: 3 })], ["default/c", pod("c", { node: "new-1" })]],
  });
  assert.equal(cluster.label(2, "zone"), "c");
  assert.equal(cluster.podKey(2), "default/c");
  assert.equal(cluster.used.cpu[2], 1000);
  assert.deepEqual(moves, [{ from: 0, to: 1, pods: 2 }]);
  assert.equal(cluster.used.pods[1], 1);
  assert.equal(cluster.nodes.name[2], "new-1");
  assert.equal(cluster.waiting.size, 1);
  assert.equal(cluster.nodes.columns.flags[0] & 2, 2);
  assert.equal(before.used.pods[0], 2);
  assert.equal(before.nodes.columns.flags[0] & 2, 0);
});

test("listeners are told once a picture", () => {
  const waiting = [];
  const store = new Store({}, (work) => waiting.push(work));
  let told = 0;
  store.subscribe(() => told++);
  store.set({ frame: 1 });
  store.set({ frame: 2 });
  waiting.forEach((work) => work());
  assert.equal(told, 1);
  assert.equal(store.state.frame, 2);
});

test("nodes that two runs use differently are found by name", () => {
  const [one, other] = [two(), two()];
  assert.equal(differing(one, other).size, 0);
  other.apply([[1, 0, pod("a", { node: 2 })]]);
  assert.deepEqual([...differing(one, other)], [0, 1]);
  other.apply([[1, 0, pod("a", { node: 1 })], [0, 1, null]]);
  assert.deepEqual([...differing(one, other)], [1]);
});

test("a timeline has round moments, few enough for its width", () => {
  const labels = (start, end, width) => ticks(start, end, width, false).map((tick) => tick.label);
  assert.deepEqual(labels(5, 135, 600), ["0s", "30s", "1m00s", "1m30s", "2m00s"]);
  assert.deepEqual(labels(0, 1, 390), ["0s", "0.5s", "1s"]);
  assert.ok(ticks(0, 86_400 * 30, 1440, false).length <= 16);
  const wall = ticks(1_794_000_002.5, 1_794_000_004.5, 400, true);
  assert.equal(wall[0].time, 1_794_000_003);
});

test("a node at the edge is shown without a half empty window", () => {
  assert.equal(centred(300, 5000, 800), 16);
  assert.equal(centred(-4900, 5000, 800), 800 - 16 - 5000);
  assert.equal(centred(-1000, 5000, 800), -1000);
  assert.equal(centred(99, 400, 800), 200);
});

test("where nodes are coloured by owner, pods have the colours of the key", () => {
  const cluster = new Cluster(wire([node("n1")], [pod("a", { node: 1, owner: 5 })]));
  const found = colouring(cluster, [0], "owner", "light");
  assert.equal(found.keys[0].label, "web");
  assert.equal(found.ofOwner("web"), found.keys[0].colour);
  assert.equal(colouring(cluster, [0], "pool", "light").ofOwner, undefined);
});

test("sites are nodes, groups of allocations pods, and what is free is the scheduler's word", () => {
  const site = (id, status, free) => ({
    site_id: id, region: "r1", availability_zone: "az1", status, machines: { a: { vcpus: { total: 10, free }, memory: { total: 20, free: 5 } }, b: { vcpus: { total: 6, free: 6 }, memory: { total: 0, free: 0 } } }, storage: {}, eips: null,
  });
  const held = { id: "one", state: "committed", resource_groups: [{ name: "web", resources: [], selected: { node_id: "s2" } }] };
  const cluster = clusterOf([site("s1", "Normal", 4), site("s2", "Drained", 10), site("s3", "Offline", 10)], [held], 5);
  assert.equal(cluster.label(1, "region"), "r1");
  assert.deepEqual([cluster.nodes.columns.cpu[0], cluster.used.cpu[0]], [16_000, 6_000]);
  assert.deepEqual([...cluster.nodes.columns.flags.slice(0, 3)], [1, 3, 0]);
  assert.deepEqual(cluster.podsOn(1).map((slot) => cluster.pods.name[slot]), ["one"]);
  assert.deepEqual(groupKeys(cluster), ["region", "zone"]);
});

test("the form is a request as the API takes it", () => {
  const form = { name: "web", flavor: "a, b", count: 2, storage: "", addresses: false, replicas: 3, strategy: "discrete", regions: "r1", priority: 0, preempt: false };
  const body = requestOf(form);
  assert.deepEqual(body, { allocation: {
    resource_group: { name: "web", resources: [{ name: "web", flavors: [{ flavor_id: "a" }, { flavor_id: "b" }], count: 2 }] },
    selector: { regions: [{ region: "r1" }], strategy: { location_strategy: "discrete" } }, replicas: 3,
  } });
  const more = requestOf({ ...form, storage: "SAS 40, fast disk=7, none", addresses: true, priority: -5, preempt: true }).allocation;
  assert.deepEqual(more.resource_group.resources[0].storage, { SAS: 40, "fast disk": 7, none: "" });
  assert.deepEqual([more.resource_group.resources[0].need_eip, more.priority, more.preempt], [true, -5, true]);
});
