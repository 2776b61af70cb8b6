// What-if: changes tried in the engine; before and after side by side, the moves, the numbers.

import { aftermath } from "./aftermath.js";
import { MapControls } from "./controls.js";
import { busy, h, heading, notice, put, say } from "./dom.js";
import { ask, kept, saved } from "./live.js";
import { MapCanvas } from "./map.js";
import { groupsOf } from "./owners.js";
import { titled } from "./changes.js";
import { BETWEEN, formatRoute } from "./router.js";
import { VirtualTable } from "./table.js";
import { count, some } from "./units.js";

/** @import { Cluster } from "./cluster.js" */
/** @import { State, Store } from "./store.js" */
/** @import { WhatIf } from "./aftermath.js" */
/** @typedef {{pod: string, what: string, from: string, to: string, why: string, known: boolean}} Line `known`: the pod is there already */

/** @type {[string, string, string][]} verb, label, example */
const VERBS = [
  ["drain", "Drain", "node-0001 or pool=gpu"], ["cordon", "Cordon", "node-0001 or zone=a"], ["uncordon", "Uncordon", "node-0001"],
  ["remove", "Lose", "topology.kubernetes.io/zone=a"], ["add", "Add nodes", "3xnode-0001 or 2xcpu=8,memory=32Gi"],
  ["scale", "Scale", "default/deployment/web=30"], ["request", "Request", "default/deployment/web=cpu=500m,memory=1Gi"],
  ["priority", "Priority", "default/deployment/web=1000"], ["delete", "Delete", "default/deployment/web or default/pod/web-0"],
  ["patch", "Patch", 'node/node-0001=[{"op": "add", "path": "/metadata/labels/disk", "value": "ssd"}]'], ["apply", "Apply", "manifests in YAML"],
  ["version", "Decide as version", "1.36"], ["config", "Use configuration", "a KubeSchedulerConfiguration in YAML"],
];
const MOST_WAITS = 8;
/** Verbs whose value is a text of many lines. */
const LONG = ["config", "apply"];
/** Verbs of pods and their owners, which have a namespace. */
const OWNED = ["scale", "request", "priority", "delete", "patch"];

export class WhatIfView {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    this.asked = "";
    /** @type {WhatIf | null} */
    this.answer = null;
    /** @type {ReturnType<typeof aftermath> | null} */
    this.after = null;
    /** @type {Cluster | null} */
    this.cluster = null;
    this.verb = /** @type {HTMLSelectElement} */ (h("select", { "aria-label": "Change", onchange: () => this.example() }, VERBS.map(([verb, label]) => h("option", { value: verb }, label))));
    this.value = /** @type {HTMLInputElement} */ (h("input", { type: "text", "aria-label": "What", spellcheck: false, class: "wide", list: "nodes-known" }));
    this.long = /** @type {HTMLTextAreaElement} */ (h("textarea", { "aria-label": "Configuration", rows: "5", spellcheck: false, class: "wide", hidden: true }));
    this.list = h("datalist", { id: "nodes-known" });
    this.offered = "";
    this.form = h("form", { class: "bar", onsubmit: (/** @type {Event} */ event) => this.submit(event) }, h("span", { class: "dim" }, "What if I"), this.verb, this.value, this.long, this.list,
      h("button", { type: "submit" }, "Try"), h("button", { type: "button", onclick: () => this.more() }, "and also"));
    this.chips = h("span", { class: "chips changes" });
    this.form.append(this.chips);
    this.body = h("div", { class: "what-body" });
    this.root = h("div", { class: "view what-view" }, heading("What-if"), saved() ? null : this.form, this.body);
    this.controls = new MapControls((change) => this.go(this.changes, change));
    this.left = this.map("Before");
    this.right = this.map("After");
    this.waits = h("div", { class: "waits" });
    /** @type {import("./table.js").Column<Line>[]} */
    this.columns = [
      { title: "Pod", width: 3.4, narrow: true, key: (line) => line.pod, cell: (line) => this.podName(line.pod, line.known) },
      { title: "What", width: 1.1, narrow: true, key: (line) => line.what, cell: (line) => line.what },
      { title: "From", width: 1.5, key: (line) => line.from, cell: (line) => this.nodeLink(line.from) },
      { title: "To", width: 1.5, narrow: true, key: (line) => line.to, cell: (line) => this.nodeLink(line.to) },
      { title: "Why", width: 7, narrow: true, below: true, key: (line) => line.why, cell: (line) => line.why },
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
    this.long.hidden = !LONG.includes(this.verb.value);
    this.long.setAttribute("aria-label", this.verb.value === "apply" ? "Manifests" : "Configuration");
    this.value.hidden = !this.long.hidden;
    this.offer();
  }

  /** A map that points out the same node as the other one. @param {string} label */
  map(label) {
    const map = new MapCanvas({ label, select: (slot) => {
      const { query } = this.store.state.route;
      history.replaceState(null, "", formatRoute("what-if", "", { ...query, node: slot >= 0 ? map.scene?.cluster.nodes.name[slot] : undefined }));
      dispatchEvent(new HashChangeEvent("hashchange"));
    } });
    return map;
  }

  /** Names that fit the verb, to choose from: owners with their namespaces, or nodes. */
  offer() {
    const cluster = this.store.state.shown;
    const owned = OWNED.includes(this.verb.value);
    if (!cluster || this.offered === `${owned} ${cluster.about.name}`) return;
    this.offered = `${owned} ${cluster.about.name}`;
    const names = owned ? groupsOf(cluster) : cluster.nodes.name.filter(Boolean);
    put(this.list, names.slice(0, 500).map((name) => h("option", { value: name })));
  }

  /** A pod by its namespace and name; one that is not there yet cannot be asked. @param {string} key @param {boolean} known */
  podName(key, known) {
    const [space, name] = key.split("/");
    const words = [h("span", { class: "dim" }, `${space}/`), name];
    return known ? h("a", { href: formatRoute("pod", key, this.cluster?.moment) }, words) : h("span", null, words);
  }

  /** @param {string} name */
  nodeLink(name) {
    return name ? h("a", { href: formatRoute("map", "", { ...this.cluster?.moment, node: name }) }, name) : "";
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
    put(this.chips, this.changes.map((change, i) => h("button", { type: "button", class: "chip", title: change, "aria-label": `Remove ${titled(change)}`, onclick: () => {
      this.go(this.changes.filter((_, at) => at !== i));
    } }, h("span", null, titled(change)), h("span", { "aria-hidden": "true" }, "✕"))));
  }

  /** @param {State} state */
  update(state) {
    const { query } = state.route;
    const cluster = state.shown;
    if (!cluster) return;
    const changes = query.change ?? "";
    const wanted = changes && `what-if ${query.run ?? ""}|${query.t ?? ""}|${changes}`;
    this.offer();
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
        put(this.body, saved() ? notice("Nothing was tried", "A saved report shows the what-if that it was saved from; this one was saved from another view.") : notice("Ask what would happen", "Drain a node, lose a zone, add nodes, scale a deployment, change its requests, the scheduler's version or configuration: the engine tries it on a copy. Nothing is changed in the cluster."));
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
      const body = JSON.stringify({ changes: this.changes, run: run ?? "", time: t ?? "" });
      const found = (await kept(wanted)) ?? (saved() ? null : await ask("api/what-if", { method: "POST", body, headers: { "content-type": "application/json" } }));
      if (this.asked !== wanted) return;
      if (!found) throw new Error("a saved report cannot try anything new");
      this.answer = found.answer;
      this.after = aftermath(cluster, found.answer, found.after);
      this.cluster = this.after.before;
      this.tell(found.answer, found.command);
      this.maps(state);
    } catch (problem) {
      if (this.asked === wanted) put(this.body, notice("This cannot be tried", /** @type {Error} */ (problem).message, saved() ? null : h("button", { type: "button", onclick: () => this.ask(wanted, cluster, state) }, "Try again")));
    }
  }

  /** @param {WhatIf} answer @param {string} command */
  tell(answer, command) {
    const known = true;
    const there = (/** @type {string} */ pod) => (this.cluster?.podSlot(pod) ?? -1) >= 0;
    /** @type {Line[]} */
    const lines = [
      ...(answer.stuck ?? []).map((item) => ({ pod: item.pod, what: item.state, from: item.from, to: "", why: item.reason, known: there(item.pod) })),
      ...(answer.moves ?? []).map((item) => ({ pod: item.pod, what: "moves", from: item.from, to: item.to, why: item.why ?? "", known })),
      ...(answer.starts ?? []).map((item) => ({ pod: item.pod, what: item.new ? "new" : "starts", from: "", to: item.node, why: "", known: !item.new })),
      ...(answer.evictions ?? []).map((item) => ({ pod: item.pod, what: "evicted", from: item.node, to: "", why: `makes way for ${item.by}`, known })),
      ...(answer.deleted ?? []).map((pod) => ({ pod, what: "deleted", from: "", to: "", why: "", known })),
    ];
    const side = (/** @type {import("./aftermath.js").Side} */ s) => `${some(s.nodes.usable, "usable node")}, ${count(s.running)} running, ${count(s.pending)} pending`;
    const copy = h("button", { type: "button", onclick: () => navigator.clipboard?.writeText(command).then(() => say(copy, "Copied")) }, "Copy");
    put(this.result,
      h("p", { class: "dim" }, this.told(answer)),
      h("p", { class: answer.ok ? "good verdict" : "bad verdict" }, answer.ok ? "✓ everything that runs still runs" : "✗ not everything that runs would still run"),
      h("p", null, tally(lines)),
      answer.anyway?.length ? h("p", { class: "dim" }, `${count(answer.anyway.length)} of those that wait now would start anyway`) : null,
      (answer.notes ?? []).map((note) => h("p", { class: "warn" }, note)),
      command ? h("div", { class: "command" }, h("p", { class: "dim" }, "The same as a command ", copy), h("pre", null, command)) : null);
    put(this.body, h("div", { class: "bar" }, this.controls.labels, this.controls.legend), h("div", { class: "sides two" },
      h("section", { class: "one" }, h("p", { class: "facts" }, h("b", null, "Before "), h("span", { class: "dim" }, side(answer.before))), this.left.root),
      h("section", { class: "one" }, h("p", { class: "facts" }, h("b", null, "After "), h("span", { class: "dim" }, side(answer.after))), this.right.root)), this.waits,
      h("div", { class: "what-foot" }, this.result, this.table.root));
    this.pending();
    this.table.columns = lines.some((line) => line.why) ? this.columns : this.columns.slice(0, -1);
    this.table.heading();
    this.table.show(lines);
  }

  /** The changes as the engine understood them, namespaces included. @param {WhatIf} answer */
  told(answer) {
    const applied = this.changes.filter((change) => change.startsWith("apply="));
    return (answer.changes ?? []).map((text) => (text.startsWith("apply ") && applied.length ? titled(applied.shift() ?? "") : text)).join(", then ");
  }

  /** The pods without a node afterwards, beside the map; those that the change brings first. */
  pending() {
    if (!this.after || !this.cluster) return;
    const { cluster } = this.after;
    const before = this.cluster;
    const slots = [...cluster.waiting].map((slot) => ({ slot, key: cluster.podKey(slot) }));
    const waited = new Set([...before.waiting].map((slot) => before.podKey(slot)));
    const fresh = slots.filter(({ key }) => !waited.has(key));
    const rest = slots.length - fresh.length;
    this.waits.hidden = !slots.length;
    put(this.waits, h("b", null, `${count(slots.length)} pending afterwards`), fresh.slice(0, MOST_WAITS).map(({ slot, key }) => {
      const known = before.podSlot(key) >= 0;
      return h("span", { class: "wait", title: cluster.pods.message.get(slot) ?? "" }, h("i", { "aria-hidden": "true" }), this.podName(key, known), known ? null : h("small", { class: "dim" }, " new"));
    }),
      fresh.length > MOST_WAITS ? h("span", { class: "dim" }, `and ${count(fresh.length - MOST_WAITS)} more by this`) : null,
      rest ? h("span", { class: "dim" }, fresh.length ? `${count(rest)} waited before, too` : "they waited before, too") : null);
  }

  /** @param {State} state */
  maps(state) {
    if (!this.answer || !this.after || !this.cluster) return;
    const { query } = state.route;
    const { cluster: after, moves } = this.after;
    const selected = (/** @type {Cluster} */ cluster) => (query.node ? cluster.nodeSlot(query.node) : -1);
    const options = { ...this.controls.choices(this.cluster, query), theme: state.theme, shown: null };
    this.left.show(this.cluster, { ...options, selected: selected(this.cluster) });
    this.right.show(after, { ...options, selected: selected(after), moves });
    if (this.left.scene) this.controls.key(this.cluster, this.left.scene.colouring);
  }
}

/** What happens to how many. @param {Line[]} lines */
function tally(lines) {
  const counts = new Map();
  for (const { what } of lines) counts.set(what, (counts.get(what) ?? 0) + 1);
  const words = /** @type {Record<string, string>} */ ({ moves: "moved", new: "new", starts: "started", pending: "without a node", lost: "lost for good", blocked: "that cannot be evicted" });
  return [...counts].map(([what, number]) => `${count(number)} ${words[what] ?? what}`).join(" · ") || "no pod is touched";
}
