// What-if: changes tried in the engine; before and after side by side, the moves, the numbers.

import { aftermath } from "./aftermath.js";
import { h, notice, put, say } from "./dom.js";
import { groupKeys } from "./groups.js";
import { ask, kept, saved } from "./live.js";
import { MapCanvas } from "./map.js";
import { formatRoute } from "./router.js";
import { VirtualTable } from "./table.js";
import { count } from "./units.js";

/** @import { Cluster } from "./cluster.js" */
/** @import { State } from "./store.js" */
/** @import { WhatIf } from "./aftermath.js" */
/** @typedef {{pod: string, what: string, from: string, to: string, why: string}} Line */

/** @type {[string, string, string][]} verb, label, example */
const VERBS = [
  ["drain", "Drain", "node-0001 or pool=gpu"], ["cordon", "Cordon", "node-0001 or zone=a"], ["uncordon", "Uncordon", "node-0001"],
  ["remove", "Lose", "topology.kubernetes.io/zone=a"], ["add", "Add nodes", "3xnode-0001 or 2xcpu=8,memory=32Gi"],
  ["scale", "Scale", "deployment/web=30"], ["priority", "Priority", "deployment/web=1000"], ["delete", "Delete", "deployment/web"],
];

export class WhatIfView {
  constructor() {
    this.asked = "";
    /** @type {WhatIf | null} */
    this.answer = null;
    /** @type {{cluster: Cluster, moves: {from: number, to: number}[]} | null} */
    this.after = null;
    /** @type {Cluster | null} */
    this.cluster = null;
    this.verb = /** @type {HTMLSelectElement} */ (h("select", { "aria-label": "Change", onchange: () => this.example() }, VERBS.map(([verb, label]) => h("option", { value: verb }, label))));
    this.value = /** @type {HTMLInputElement} */ (h("input", { type: "text", "aria-label": "What", spellcheck: false, class: "wide", list: "nodes-known" }));
    this.list = h("datalist", { id: "nodes-known" });
    this.form = h("form", { class: "bar", onsubmit: (/** @type {Event} */ event) => this.submit(event) }, h("span", { class: "dim" }, "What if I"), this.verb, this.value, this.list,
      h("button", { type: "submit" }, "Try"), h("button", { type: "button", onclick: () => this.more() }, "and also"));
    this.chips = h("span", { class: "chips changes" });
    this.form.append(this.chips);
    this.body = h("div", { class: "what-body" });
    this.root = h("div", { class: "view what-view" }, this.form, this.body);
    this.left = new MapCanvas({ label: "Before", select: () => {} });
    this.right = new MapCanvas({ label: "After", select: () => {} });
    /** @type {VirtualTable<Line>} */
    this.table = new VirtualTable("What happens to pods", [
      { title: "Pod", width: 4, narrow: true, key: (line) => line.pod, cell: (line) => h("a", { href: formatRoute("pod", line.pod) }, line.pod) },
      { title: "What", width: 1.4, narrow: true, key: (line) => line.what, cell: (line) => line.what },
      { title: "From", width: 2, key: (line) => line.from, cell: (line) => line.from },
      { title: "To", width: 2, narrow: true, key: (line) => line.to, cell: (line) => line.to },
      { title: "Why", width: 5, key: (line) => line.why, cell: (line) => line.why },
    ], { empty: "No pod is touched." });
    this.result = h("div", { class: "what-result" });
    /** @type {string[]} */
    this.changes = [];
    this.example();
  }

  example() {
    const found = VERBS.find(([verb]) => verb === this.verb.value);
    this.value.placeholder = found ? found[2] : "";
  }

  /** @param {Event} event */
  submit(event) {
    event.preventDefault();
    const text = this.value.value.trim();
    const all = [...this.changes, ...(text ? [`${this.verb.value}=${text}`] : [])];
    this.value.value = "";
    if (all.length) location.hash = formatRoute("what-if", "", { change: all.join("\n") });
  }

  more() {
    const text = this.value.value.trim();
    if (!text) return;
    this.changes.push(`${this.verb.value}=${text}`);
    this.value.value = "";
    this.show();
  }

  show() {
    put(this.chips, this.changes.map((change, i) => h("button", { type: "button", class: "chip", "aria-label": `Remove ${change}`, onclick: () => {
      const rest = this.changes.filter((_, at) => at !== i);
      location.hash = formatRoute("what-if", "", { change: rest.join("\n") });
    } }, change.replace("=", " "), " ✕")));
  }

  /** @param {State} state */
  update(state) {
    const cluster = state.cluster;
    if (!cluster) return;
    const { query } = state.route;
    const wanted = query.change ?? (query.do && query.node ? `${query.do}=${query.node}` : "");
    if (!this.list.childElementCount) put(this.list, cluster.nodes.name.filter(Boolean).slice(0, 500).map((name) => h("option", { value: name })));
    if (wanted !== this.asked) {
      this.asked = wanted;
      this.changes = wanted ? wanted.split("\n") : [];
      this.show();
      this.answer = this.after = null;
      this.cluster = null;
      if (wanted) this.ask(wanted, cluster, state);
    }
    if (!wanted) {
      if (this.body.firstChild?.nodeName !== "DIV" || !this.body.querySelector(".notice")) {
        put(this.body, notice("Ask what would happen", "Drain a node, lose a zone, add nodes or scale a deployment: the engine tries it on a copy. Nothing is changed in the cluster."));
      }
      return;
    }
    this.maps(state);
  }

  /** @param {string} wanted @param {Cluster} cluster @param {State} state */
  async ask(wanted, cluster, state) {
    put(this.body, h("p", { class: "dim pad", role: "status" }, "Trying it in the engine…"));
    try {
      const body = JSON.stringify({ changes: wanted.split("\n") });
      const found = (await kept(`what-if ${wanted}`)) ?? (saved() ? null : await ask("api/what-if", { method: "POST", body, headers: { "content-type": "application/json" } }));
      if (this.asked !== wanted) return;
      if (!found) throw new Error("a saved report cannot try anything new");
      this.answer = found.answer;
      this.cluster = cluster;
      this.after = aftermath(cluster, found.answer);
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
    const side = (/** @type {import("./aftermath.js").Side} */ s) => `${count(s.nodes.usable)} usable nodes, ${count(s.running)} running, ${count(s.pending)} pending`;
    const copy = h("button", { type: "button", onclick: () => navigator.clipboard?.writeText(command).then(() => say(copy, "Copied")) }, "Copy");
    put(this.result,
      h("p", { class: answer.ok ? "good verdict" : "bad verdict" }, answer.ok ? "✓ everything that runs still runs" : "✗ not everything that runs would still run"),
      h("p", null, `${count((answer.moves ?? []).length)} move · ${count((answer.stuck ?? []).length)} get no node · ${count((answer.starts ?? []).length)} start · ${count((answer.evictions ?? []).length)} evicted`),
      (answer.notes ?? []).map((note) => h("p", { class: "warn" }, note)),
      h("p", { class: "command" }, h("code", null, command), " ", copy));
    put(this.body, h("div", { class: "sides two" },
      h("section", { class: "one" }, h("p", { class: "facts" }, h("b", null, "Before "), h("span", { class: "dim" }, side(answer.before))), this.left.root),
      h("section", { class: "one" }, h("p", { class: "facts" }, h("b", null, "After "), h("span", { class: "dim" }, side(answer.after))), this.right.root)),
      h("div", { class: "what-foot" }, this.result, this.table.root));
    this.table.show(lines);
  }

  /** @param {State} state */
  maps(state) {
    if (!this.answer || !this.after || !this.cluster) return;
    const zone = "topology.kubernetes.io/zone";
    const { query } = state.route;
    const group = query.group ?? (groupKeys(this.cluster).includes(zone) ? zone : "");
    const options = { group, colour: query.colour ?? "cpu", theme: state.theme, selected: -1, shown: null };
    this.left.show(this.cluster, options);
    this.right.show(this.after.cluster, { ...options, moves: this.after.moves });
  }

  close() {
    this.left.close();
    this.right.close();
    this.table.close();
  }
}
