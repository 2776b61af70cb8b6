// What-if: changes tried in the engine; before and after side by side, the moves, the numbers.

import { aftermath } from "./aftermath.js";
import { MapControls } from "./controls.js";
import { busy, h, notice, put, say } from "./dom.js";
import { ask, kept, saved, spokenOf } from "./live.js";
import { MapCanvas } from "./map.js";
import { formatRoute } from "./router.js";
import { VirtualTable } from "./table.js";
import { count, some } from "./units.js";

/** @import { Cluster } from "./cluster.js" */
/** @import { State, Store } from "./store.js" */
/** @import { WhatIf } from "./aftermath.js" */
/** @typedef {{pod: string, what: string, from: string, to: string, why: string}} Line */

/** @type {[string, string, string][]} verb, label, example */
const VERBS = [
  ["drain", "Drain", "node-0001 or pool=gpu"], ["cordon", "Cordon", "node-0001 or zone=a"], ["uncordon", "Uncordon", "node-0001"],
  ["remove", "Lose", "topology.kubernetes.io/zone=a"], ["add", "Add nodes", "3xnode-0001 or 2xcpu=8,memory=32Gi"],
  ["scale", "Scale", "deployment/web=30"], ["request", "Request", "deployment/web=cpu=500m,memory=1Gi"], ["priority", "Priority", "deployment/web=1000"], ["delete", "Delete", "deployment/web"],
  ["version", "Decide as version", "1.36"], ["config", "Use configuration", "a KubeSchedulerConfiguration in YAML"],
];
/** Between changes in an address: a configuration has lines of its own. */
const BETWEEN = "\n\n";

export class WhatIfView {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    this.asked = "";
    /** @type {WhatIf | null} */
    this.answer = null;
    /** @type {{cluster: Cluster, moves: {from: number, to: number}[]} | null} */
    this.after = null;
    /** @type {Cluster | null} */
    this.cluster = null;
    this.verb = /** @type {HTMLSelectElement} */ (h("select", { "aria-label": "Change", onchange: () => this.example() }, VERBS.map(([verb, label]) => h("option", { value: verb }, label))));
    this.value = /** @type {HTMLInputElement} */ (h("input", { type: "text", "aria-label": "What", spellcheck: false, class: "wide", list: "nodes-known" }));
    this.long = /** @type {HTMLTextAreaElement} */ (h("textarea", { "aria-label": "Configuration", rows: "5", spellcheck: false, class: "wide", hidden: true }));
    this.list = h("datalist", { id: "nodes-known" });
    this.form = h("form", { class: "bar", onsubmit: (/** @type {Event} */ event) => this.submit(event) }, h("span", { class: "dim" }, "What if I"), this.verb, this.value, this.long, this.list,
      h("button", { type: "submit" }, "Try"), h("button", { type: "button", onclick: () => this.more() }, "and also"));
    this.chips = h("span", { class: "chips changes" });
    this.form.append(this.chips);
    this.body = h("div", { class: "what-body" });
    this.root = h("div", { class: "view what-view" }, this.form, this.body);
    this.controls = new MapControls((change) => this.go(this.changes, change));
    this.left = new MapCanvas({ label: "Before", select: () => {} });
    this.right = new MapCanvas({ label: "After", select: () => {} });
    /** @type {import("./table.js").Column<Line>[]} */
    this.columns = [
      { title: "Pod", width: 4, narrow: true, key: (line) => line.pod, cell: (line) => h("a", { href: formatRoute("pod", line.pod) }, line.pod) },
      { title: "What", width: 1.4, narrow: true, key: (line) => line.what, cell: (line) => line.what },
      { title: "From", width: 2, key: (line) => line.from, cell: (line) => nodeLink(line.from) },
      { title: "To", width: 2, narrow: true, key: (line) => line.to, cell: (line) => nodeLink(line.to) },
      { title: "Why", width: 5, key: (line) => line.why, cell: (line) => line.why },
    ];
    this.table = new VirtualTable("What happens to pods", this.columns, { empty: "No pod is touched." });
    this.result = h("div", { class: "what-result" });
    /** @type {string[]} */
    this.changes = [];
    this.example();
  }

  example() {
    const found = VERBS.find(([verb]) => verb === this.verb.value);
    this.value.placeholder = this.long.placeholder = found ? found[2] : "";
    this.long.hidden = this.verb.value !== "config";
    this.value.hidden = !this.long.hidden;
  }

  /** What is written in the form, and the form empty again. @returns {string[]} */
  written() {
    const box = this.long.hidden ? this.value : this.long;
    const text = box.value.trim().replace(/\n\s*\n/g, "\n");
    box.value = "";
    return text ? [`${this.verb.value}=${text}`] : [];
  }

  /** @param {string[]} changes @param {Record<string, string | undefined>} [more] */
  go(changes, more) {
    const { run, t, group, colour } = this.store.state.route.query;
    location.hash = formatRoute("what-if", "", { change: changes.join(BETWEEN), run, t, group, colour, ...more });
  }

  /** @param {Event} event */
  submit(event) {
    event.preventDefault();
    const all = [...this.changes, ...this.written()];
    if (all.length) this.go(all);
  }

  more() {
    this.changes.push(...this.written());
    this.show();
  }

  show() {
    put(this.chips, this.changes.map((change, i) => h("button", { type: "button", class: "chip", "aria-label": `Remove ${change}`, onclick: () => {
      this.go(this.changes.filter((_, at) => at !== i));
    } }, shortened(change.replace("=", " ")), " ✕")));
  }

  /** @param {State} state */
  update(state) {
    const { query } = state.route;
    const cluster = spokenOf(this.store, query);
    if (!cluster) return;
    const changes = query.change ?? "";
    const wanted = changes && `what-if ${query.run ?? ""}|${query.t ?? ""}|${changes}`;
    if (!this.list.childElementCount) put(this.list, cluster.nodes.name.filter(Boolean).slice(0, 500).map((name) => h("option", { value: name })));
    if (wanted !== this.asked) {
      this.asked = wanted;
      this.changes = changes ? changes.split(BETWEEN) : [];
      this.show();
      this.answer = this.after = null;
      this.cluster = null;
      if (wanted) this.ask(wanted, cluster, state);
    }
    if (!wanted) {
      if (this.body.firstChild?.nodeName !== "DIV" || !this.body.querySelector(".notice")) {
        put(this.body, notice("Ask what would happen", "Drain a node, lose a zone, add nodes, scale a deployment, change its requests, the scheduler's version or configuration: the engine tries it on a copy. Nothing is changed in the cluster."));
      }
      return;
    }
    this.maps(state);
  }

  /** @param {string} wanted @param {Cluster} cluster @param {State} state */
  async ask(wanted, cluster, state) {
    put(this.body, busy("Trying it in the engine", "On a copy; the first question to a large cluster takes some seconds."));
    try {
      const { run, t } = state.route.query;
      const body = JSON.stringify({ changes: this.changes, run: run ?? "", time: t ? Number(t) : null });
      const found = (await kept(wanted)) ?? (saved() ? null : await ask("api/what-if", { method: "POST", body, headers: { "content-type": "application/json" } }));
      if (this.asked !== wanted) return;
      if (!found) throw new Error("a saved report cannot try anything new");
      this.answer = found.answer;
      this.cluster = cluster;
      this.after = aftermath(cluster, found.answer, found.after);
      this.tell(found.answer, found.command);
      this.maps(state);
    } catch (problem) {
      if (this.asked === wanted) put(this.body, notice("This cannot be tried", /** @type {Error} */ (problem).message));
    }
  }

  /** @param {WhatIf} answer @param {string} command */
  tell(answer, command) {
    /** @type {Line[]} */
    const lines = [
      ...(answer.stuck ?? []).map((item) => ({ pod: item.pod, what: item.state, from: item.from, to: "", why: item.reason })),
      ...(answer.moves ?? []).map((item) => ({ pod: item.pod, what: "moves", from: item.from, to: item.to, why: item.why ?? "" })),
      ...(answer.starts ?? []).map((item) => ({ pod: item.pod, what: item.new ? "new" : "starts", from: "", to: item.node, why: "" })),
      ...(answer.evictions ?? []).map((item) => ({ pod: item.pod, what: "evicted", from: item.node, to: "", why: `makes way for ${item.by}` })),
      ...(answer.deleted ?? []).map((pod) => ({ pod, what: "deleted", from: "", to: "", why: "" })),
    ];
    const side = (/** @type {import("./aftermath.js").Side} */ s) => `${some(s.nodes.usable, "usable node")}, ${count(s.running)} running, ${count(s.pending)} pending`;
    const copy = h("button", { type: "button", onclick: () => navigator.clipboard?.writeText(command).then(() => say(copy, "Copied")) }, "Copy");
    put(this.result,
      h("p", { class: answer.ok ? "good verdict" : "bad verdict" }, answer.ok ? "✓ everything that runs still runs" : "✗ not everything that runs would still run"),
      h("p", null, `${count((answer.moves ?? []).length)} move · ${count((answer.stuck ?? []).length)} get no node · ${count((answer.starts ?? []).length)} start · ${count((answer.evictions ?? []).length)} evicted`),
      (answer.notes ?? []).map((note) => h("p", { class: "warn" }, note)),
      command ? h("p", { class: "command" }, h("code", null, command), " ", copy) : null);
    put(this.body, h("div", { class: "bar" }, this.controls.labels, this.controls.legend), h("div", { class: "sides two" },
      h("section", { class: "one" }, h("p", { class: "facts" }, h("b", null, "Before "), h("span", { class: "dim" }, side(answer.before))), this.left.root),
      h("section", { class: "one" }, h("p", { class: "facts" }, h("b", null, "After "), h("span", { class: "dim" }, side(answer.after))), this.right.root)),
      h("div", { class: "what-foot" }, this.result, this.table.root));
    this.table.columns = lines.some((line) => line.why) ? this.columns : this.columns.slice(0, -1);
    this.table.heading();
    this.table.show(lines);
  }

  /** @param {State} state */
  maps(state) {
    if (!this.answer || !this.after || !this.cluster) return;
    const options = { ...this.controls.choices(this.cluster, state.route.query), theme: state.theme, selected: -1, shown: null };
    this.left.show(this.cluster, options);
    this.right.show(this.after.cluster, { ...options, moves: this.after.moves });
    if (this.left.scene) this.controls.key(this.cluster, this.left.scene.colouring);
  }

  close() {
    this.left.close();
    this.right.close();
    this.table.close();
  }
}

/** @param {string} name */
function nodeLink(name) {
  return name ? h("a", { href: formatRoute("map", "", { node: name }) }, name) : "";
}

/** A long change in one line. @param {string} text */
function shortened(text) {
  const line = text.replace(/\s+/g, " ");
  return line.length > 60 ? `${line.slice(0, 57)}…` : line;
}
