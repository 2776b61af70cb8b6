// Time: what happened, a handle to go back to any moment, and the map of that moment. Two runs side by side.

import { LANES, timeAt, timeline } from "./chart.js";
import { MapControls } from "./controls.js";
import { differing } from "./differing.js";
import { busy, h, heading, notice, put, say } from "./dom.js";
import { history as load } from "./live.js";
import { MapCanvas } from "./map.js";
import { textOf, timeOf, told } from "./moments.js";
import { closable, NodePanel, PendingPanel } from "./panel.js";
import { formatRoute, parseRoute } from "./router.js";
import { clock, count, elapsed, percent, some } from "./units.js";

/** @import { Cluster } from "./cluster.js" */
/** @import { History, Series } from "./history.js" */
/** @import { State, Store } from "./store.js" */
/** @typedef {{name: string, facts: HTMLElement, differs: HTMLElement, map: MapCanvas, root: HTMLElement, node: NodePanel, pending: PendingPanel}} Side */

const SLICES = 360;
const REMEASURE = 1000;
const REACH = 10_000;
const WRITE = 150;
const WHOLE = 20_000;

export class TimeView {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    /** @type {Record<string, string>} */
    this.query = {};
    /** @type {Side[]} */
    this.sides = [];
    /** @type {Record<string, {series: Series, grown: number, at: number}>} */
    this.series = {};
    this.canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { class: "timeline", role: "img", "aria-label": "Timeline of arrivals, bindings, evictions, pending pods and utilisation" }));
    this.range = /** @type {HTMLInputElement} */ (h("input", { type: "range", min: "0", max: "1000", step: "any", "aria-label": "Moment", oninput: () => this.drag() }));
    this.label = h("output", { class: "moment" });
    this.play = h("button", { type: "button", onclick: () => this.toggle() }, "▶ Play");
    this.back = h("button", { type: "button", "aria-label": "Previous change", onclick: () => this.step(-1) }, "◂");
    this.forth = h("button", { type: "button", "aria-label": "Next change", onclick: () => this.step(1) }, "▸");
    this.latest = h("button", { type: "button", onclick: () => this.choose(undefined) }, "Latest");
    this.compare = /** @type {HTMLSelectElement} */ (h("select", { onchange: () => this.go({ with: this.compare.value || undefined }) }));
    this.compareLabel = h("label", null, "Compare with ", this.compare);
    this.table = h("details", { class: "time-table" });
    this.stage = h("div", { class: "sides" });
    this.aside = h("aside", { class: "side" });
    closable(this.aside, () => this.go({ node: undefined, pod: undefined }), () => this.sides[0]?.map.canvas.focus());
    this.controls = new MapControls((change) => this.go(change));
    this.outcome = h("details", { class: "outcome", hidden: true });
    this.body = h("div", { class: "time-body" },
      h("div", { class: "bar" }, this.back, this.play, this.forth, this.latest, this.label, this.compareLabel, this.outcome, this.controls.labels, this.controls.legend),
      h("div", { class: "split" }, this.stage, this.aside), h("div", { class: "ruler" }, this.canvas, this.range), this.table);
    this.title = heading("Time");
    this.root = h("div", { class: "view time-view" }, this.title, busy("Loading the history", "Every change since the beginning."));
    this.canvas.addEventListener("pointerdown", (event) => this.point(event));
    this.canvas.addEventListener("pointermove", (event) => event.buttons && this.point(event));
    this.watch = new ResizeObserver(() => this.chart());
    this.watch.observe(this.canvas);
    this.timer = 0;
    /** @type {number | undefined} */
    this.moment = undefined;
    this.address = "";
    /** @type {ReturnType<typeof setTimeout> | undefined | 0} */
    this.writing = 0;
  }

  /** @param {Record<string, string | undefined>} change */
  link(change) {
    return formatRoute("time", "", { ...this.query, ...change });
  }

  /** Show another moment or choice at once; a browser takes a new address only so often. @param {Record<string, string | undefined>} change @param {boolean} [often] one of many in a row */
  go(change, often = false) {
    this.address = this.link(change);
    const route = parseRoute(this.address);
    this.query = route.query;
    this.store.set({ route });
    if (often) this.writing ||= setTimeout(() => this.write(), WRITE);
    else this.write();
  }

  write() {
    clearTimeout(this.writing);
    this.writing = 0;
    if (parseRoute(location.hash).view === "time") history.replaceState(null, "", this.address);
  }

  /** @returns {History | undefined} */
  get main() {
    return this.store.state.histories[this.query.run ?? ""];
  }

  /** @param {State} state */
  update(state) {
    this.query = state.route.query;
    if (!state.cluster) return;
    if (state.cluster.about.kind === "snapshot") {
      put(this.root, this.title, notice("One moment only", "A snapshot or dump has no history. Open a scenario, a recording or a running cluster to go back in time."));
      return;
    }
    const wanted = [this.query.run ?? "", ...(this.query.with ? [this.query.with] : [])];
    const missing = wanted.filter((run) => !state.histories[run]);
    if (missing.length) {
      for (const run of missing) {
        load(this.store, run).catch((problem) => {
          put(this.root, this.title, notice("There is no history", problem.message));
        });
      }
      return;
    }
    if (this.root.lastChild !== this.body) put(this.root, this.title, this.body);
    this.runs(state.cluster);
    const history = /** @type {History} */ (this.main);
    this.moment = timeOf(history, this.query.t, state.cluster.about.wall);
    const time = this.moment ?? history.end;
    this.range.value = String(((time - history.start) / Math.max(history.end - history.start, 1e-9)) * 1000);
    const shown = told(history, time, state.cluster.about.wall);
    say(this.label, shown + (this.moment === undefined ? " (latest)" : ""));
    this.range.setAttribute("aria-valuetext", shown);
    this.show(wanted, time, state);
    this.chart();
  }

  /** Offer the other runs. @param {Cluster} cluster */
  runs(cluster) {
    const runs = cluster.about.runs;
    this.compareLabel.hidden = runs.length < 2;
    if (this.compare.options.length !== runs.length) {
      put(this.compare, h("option", { value: "" }, "nothing"), runs.slice(1).map((run) => h("option", { value: run.name }, run.title)));
    }
    this.compare.value = this.query.with ?? "";
    this.ended(runs.filter((run) => run.name === (this.query.run ?? "") || run.name === this.query.with));
  }

  /** How the runs in sight ended. @param {import("./cluster.js").WireCluster["runs"]} runs */
  ended(runs) {
    const key = runs.map((run) => run.name).join();
    if (this.outcome.dataset.key === key) return;
    this.outcome.dataset.key = key;
    const ends = runs.flatMap((run) => (run.outcome ? [{ title: run.title, outcome: run.outcome }] : []));
    this.outcome.hidden = !ends.length;
    const ok = ends.every(({ outcome }) => outcome.ok);
    const checks = ends.reduce((sum, { outcome }) => sum + outcome.checks.length, 0);
    put(this.outcome, h("summary", { class: ok ? "good" : "bad" }, `${ok ? "✓ passed" : "✗ failed"} · ${count(checks)} checks`),
      h("div", null, ends.map(({ title, outcome }) => [
        h("p", null, h("b", null, title), h("span", { class: "dim" }, ` seed ${outcome.seed} · ${outcome.hash.slice(0, 12)}`)),
        h("ul", { class: "plain" }, outcome.checks.map(([good, text]) => h("li", { class: good ? "" : "bad" }, `${good ? "✓" : "✗"} ${text}`)),
          outcome.failures.map((text) => h("li", { class: "bad" }, text))),
      ]).flat()));
  }

  /** @param {string[]} names @param {number} time @param {State} state */
  show(names, time, state) {
    if (JSON.stringify(this.sides.map((side) => side.name)) !== JSON.stringify(names)) {
      for (const side of this.sides) side.map.close();
      const runs = state.cluster?.about.runs ?? [];
      const titles = names.map((name) => (runs.find((run) => run.name === name) ?? runs[0])?.title ?? "");
      this.sides = names.map((name, i) => this.side(name, names.length > 1 ? titles[i] : ""));
      put(this.stage, this.sides.map((side) => side.root));
      this.stage.classList.toggle("two", names.length > 1);
      this.aside.classList.toggle("two", names.length > 1);
    }
    const start = /** @type {History} */ (this.main).start;
    const moments = this.sides.map((side, i) => {
      const history = state.histories[side.name];
      const cluster = history.at(i ? history.start + (time - start) : time);
      const t = this.moment === undefined ? undefined : textOf(history, cluster.time, cluster.about.wall);
      cluster.moment = { run: side.name || undefined, t };
      return cluster;
    });
    const [first, second] = moments;
    const options = { ...this.controls.choices(first, this.query), theme: state.theme, shown: null };
    this.sides.forEach((side, i) => {
      const cluster = moments[i];
      const totals = cluster.totals();
      const marked = second ? differing(cluster, moments[1 - i]) : undefined;
      say(side.facts, `${some(totals.nodes, "node")} · ${some(totals.pods + totals.waiting, "pod")} · ${count(totals.waiting)} pending · cpu ${percent(totals.sums.cpu.used, totals.sums.cpu.all)} · memory ${percent(totals.sums.memory.used, totals.sums.memory.all)}`);
      say(side.differs, marked && i ? differences(marked.size) : "");
      side.facts.title = side.facts.textContent ?? ""; // cut where two stand beside each other
      side.differs.className = marked?.size ? "warn" : "dim";
      side.map.show(cluster, {
        ...options, marked, selected: this.query.node ? cluster.nodeSlot(this.query.node) : -1, pod: this.query.pod ? cluster.podSlot(this.query.pod) : -1,
      });
    });
    const scene = this.sides[0].map.scene;
    if (scene) this.controls.key(first, scene.colouring);
    this.beside(moments);
  }

  /** The chosen node, or what waits, of every run. It is always there, so that no map changes its place. @param {Cluster[]} moments */
  beside(moments) {
    const { node, pod } = this.query;
    const panels = this.sides.map((side, i) => {
      if (!node) side.pending.show(moments[i]);
      else side.node.show(moments[i], node, pod ? moments[i].podSlot(pod) : -1);
      return node ? side.node.root : side.pending.root;
    });
    if (panels.some((panel, i) => this.aside.children[i] !== panel)) put(this.aside, panels);
  }

  /** @param {string} name @param {string} title where there are two @returns {Side} */
  side(name, title) {
    const facts = h("span", { class: "dim" });
    const differs = h("span");
    const map = new MapCanvas({
      label: "Map of the moment",
      select: (slot, pod = -1) => this.go({ node: slot >= 0 ? map.scene?.cluster.nodes.name[slot] : undefined, pod: pod >= 0 ? map.scene?.cluster.podKey(pod) : undefined }),
    });
    return {
      name, facts, differs, map, node: new NodePanel((change) => this.link(change), title), pending: new PendingPanel(title),
      root: h("section", { class: "one" }, h("p", { class: "facts" }, h("b", null, title), " ", differs, " ", facts), map.root),
    };
  }

  /** What happened in slices, counted anew when it grew. @param {string} run */
  counted(run) {
    const history = this.store.state.histories[run];
    const known = this.series[run];
    const now = performance.now();
    if (!history) return null;
    const old = known ? now - known.at : Infinity;
    if (!known || (known.grown !== history.grown && old > REMEASURE) || (known.series.end !== history.end && old > REACH)) {
      this.series[run] = { series: history.series(SLICES), grown: history.grown, at: now };
    }
    return this.series[run].series;
  }

  chart() {
    const series = this.counted(this.query.run ?? "");
    const history = this.main;
    if (!series || !history) return;
    const other = this.query.with ? this.counted(this.query.with) : null;
    const box = this.canvas.getBoundingClientRect();
    if (box.width < 2) return;
    const ratio = Math.min(devicePixelRatio || 1, 2);
    const [width, height] = [Math.round(box.width * ratio), Math.round(box.height * ratio)];
    if (this.canvas.width !== width || this.canvas.height !== height) Object.assign(this.canvas, { width, height });
    const c = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d"));
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    const { theme, cluster } = this.store.state;
    timeline(c, series, other, { width: box.width, height: box.height, theme, moment: this.moment ?? history.end, wall: cluster?.about.wall ?? false });
    this.numbers(series, cluster?.about.wall ?? false);
  }

  /** The chart's numbers as a table. @param {Series} series @param {boolean} wall */
  numbers(series, wall) {
    if (this.table.firstChild && !(/** @type {HTMLDetailsElement} */ (this.table).open)) return;
    const step = Math.ceil(SLICES / 24);
    const rows = [];
    for (let i = 0; i < SLICES; i += step) {
      const time = series.start + ((series.end - series.start) * (i + step)) / SLICES;
      const sum = (/** @type {Float64Array} */ values) => values.slice(i, i + step).reduce((a, b) => a + b, 0);
      const last = (/** @type {Float64Array} */ values) => values[Math.min(i + step, SLICES) - 1];
      rows.push(h("tr", null, h("th", { scope: "row" }, wall ? clock(time) : elapsed(time - series.start)),
        [series.arrivals, series.bindings, series.evictions].map((values) => h("td", { class: "number" }, count(sum(values)))),
        h("td", { class: "number" }, count(last(series.pending))), h("td", { class: "number" }, percent(last(series.cpu), 1)),
        h("td", { class: "number" }, percent(last(series.memory), 1))));
    }
    put(this.table, h("summary", null, "The same as a table"), h("table", null,
      h("thead", null, h("tr", null, h("th", null, "until"), LANES.map((lane) => h("th", { class: "number" }, lane.title)))), h("tbody", null, rows)));
  }

  /** @param {PointerEvent} event */
  point(event) {
    const series = this.counted(this.query.run ?? "");
    if (!series) return;
    const box = this.canvas.getBoundingClientRect();
    this.choose(timeAt(series, event.clientX - box.left, box.width), true);
  }

  drag() {
    const history = this.main;
    if (history) this.choose(history.start + (Number(this.range.value) / 1000) * (history.end - history.start), true);
  }

  /** The reader takes the handle: nothing pulls it away. @param {number | undefined} time @param {boolean} [often] */
  choose(time, often = false) {
    this.pause();
    this.to(time, often);
  }

  /** @param {number | undefined} time @param {boolean} often */
  to(time, often) {
    const history = this.main;
    if (!history) return;
    this.go({ t: time === undefined ? undefined : textOf(history, time, this.store.state.cluster?.about.wall ?? false) }, often);
  }

  /** @param {1 | -1} step */
  step(step) {
    const history = this.main;
    if (history) this.choose(history.neighbour(this.moment ?? history.end, step));
  }

  pause() {
    cancelAnimationFrame(this.timer);
    this.timer = 0;
    say(this.play, "▶ Play");
  }

  toggle() {
    const history = this.main;
    if (this.timer || !history) return this.pause();
    say(this.play, "❚❚ Pause");
    const from = this.moment === undefined || this.moment >= history.end ? history.start : this.moment;
    const begin = performance.now();
    const speed = Math.max(history.end - history.start, 1) / WHOLE;
    const turn = () => {
      const time = from + (performance.now() - begin) * speed;
      if (time >= history.end) return this.choose(undefined);
      this.to(time, true);
      this.timer = requestAnimationFrame(turn);
    };
    this.timer = requestAnimationFrame(turn);
  }

  leave() {
    this.pause();
  }
}

/** @param {number} nodes */
function differences(nodes) {
  if (!nodes) return "the same load on every node ·";
  return `${count(nodes)} ${nodes === 1 ? "node differs" : "nodes differ"} ·`;
}
