// Map: groups, cells and colours; a node's panel or the pending pods beside it.

import { CORDONED, GHOST, READY } from "./cluster.js";
import { MapControls } from "./controls.js";
import { h, heading, notice, put, say } from "./dom.js";
import { filtered } from "./groups.js";
import { MapCanvas } from "./map.js";
import { closable, NodePanel, PendingPanel } from "./panel.js";
import { formatRoute } from "./router.js";
import { VirtualTable } from "./table.js";
import { cpu, memory, percent } from "./units.js";

/** @import { Cluster } from "./cluster.js" */
/** @import { State } from "./store.js" */

export class MapView {
  constructor() {
    /** @type {Record<string, string>} */
    this.query = {};
    this.path = "";
    /** @type {Cluster | null} */
    this.cluster = null;
    this.map = new MapCanvas({ label: "Map of the cluster", select: (slot, pod) => this.select(slot, pod) });
    this.node = new NodePanel((query) => this.link(query));
    this.pending = new PendingPanel();
    this.aside = h("aside", { class: "side" });
    closable(this.aside, () => this.select(-1), () => (this.query.table ? this.table.scroller : this.map.canvas).focus());
    this.controls = new MapControls((change) => this.go(change));
    this.problem = h("p", { class: "bad inline", role: "alert" });
    this.of = /** @type {HTMLSelectElement} */ (h("select", { "aria-label": "Filter what", onchange: () => this.go({ of: this.of.value === "pods" ? "pods" : undefined }) },
      h("option", { value: "nodes" }, "Nodes with"), h("option", { value: "pods" }, "Pods with")));
    this.filter = /** @type {HTMLInputElement} */ (h("input", {
      type: "search", placeholder: "label selector", spellcheck: false, "aria-label": "Label selector",
      oninput: () => this.go({ filter: this.filter.value }, true),
    }));
    this.tableButton = h("button", { type: "button", "aria-pressed": "false", onclick: () => this.go({ table: this.query.table ? undefined : "1" }) }, "Table");
    this.table = nodeTable((slot) => this.select(slot));
    this.main = h("div", { class: "stage" });
    this.root = h("div", { class: "view map-view" }, heading("Map"),
      h("div", { class: "bar" }, this.controls.labels, h("span", { class: "pair" }, this.of, this.filter), this.problem, this.tableButton, this.controls.legend),
      h("div", { class: "split" }, this.main, this.aside));
    this.revealed = "";
  }

  /** @param {Record<string, string | undefined>} change */
  link(change) {
    return formatRoute("map", "", { ...this.query, ...change });
  }

  /** @param {Record<string, string | undefined>} change @param {boolean} [quiet] without a step back in the browser */
  go(change, quiet = false) {
    const address = this.link(change);
    if (quiet) {
      history.replaceState(null, "", address);
      dispatchEvent(new HashChangeEvent("hashchange"));
    } else location.hash = address;
  }

  /** @param {number} slot @param {number} [pod] */
  select(slot, pod = -1) {
    this.revealed = slot >= 0 && this.cluster ? this.cluster.nodes.name[slot] : "";
    this.go({ node: this.revealed || undefined, pod: pod >= 0 ? this.cluster?.podKey(pod) : undefined }, true);
  }

  /** @param {State} state */
  update(state) {
    const cluster = state.shown;
    if (!cluster) return;
    this.cluster = cluster;
    this.query = state.route.query;
    const chosen = this.controls.choices(cluster, this.query);
    if (!cluster.totals().nodes && !cluster.nodes.name.some(Boolean)) {
      if (!this.main.querySelector(".notice")) put(this.main, notice("No nodes", "This cluster has no nodes yet; they appear here as they come. In a cluster of bayplan up, bayplan nodes add makes some."));
      if (this.aside.firstChild !== this.pending.root) put(this.aside, this.pending.root);
      this.pending.show(cluster);
      return;
    }
    this.of.value = this.query.of === "pods" ? "pods" : "nodes";
    if (document.activeElement !== this.filter) this.filter.value = this.query.filter ?? "";
    const selected = this.query.node ? cluster.nodeSlot(this.query.node) : -1;
    const pod = this.query.pod ? cluster.podSlot(this.query.pod) : -1;
    const options = {
      ...chosen, theme: state.theme, selected, pod, shown: this.shown(cluster),
    };
    this.tableButton.setAttribute("aria-pressed", this.query.table ? "true" : "false");
    const wanted = this.query.table ? this.table.root : this.map.root;
    if (this.main.firstChild !== wanted) put(this.main, wanted);
    if (this.query.table) this.table.show(rows(cluster, options.shown));
    this.map.show(cluster, options);
    if (selected >= 0 && this.query.node !== this.revealed) {
      this.revealed = this.query.node;
      requestAnimationFrame(() => this.map.reveal(selected));
    }
    if (this.map.scene) this.controls.key(cluster, this.map.scene.colouring);
    const beside = this.query.node ? this.node.root : this.pending.root;
    if (this.aside.firstChild !== beside) put(this.aside, beside);
    if (this.query.node) this.node.show(cluster, this.query.node, pod);
    else this.pending.show(cluster);
  }

  /** @param {Cluster} cluster */
  shown(cluster) {
    try {
      const found = filtered(cluster, this.query.filter ?? "", this.query.of === "pods" ? "pods" : "nodes");
      say(this.problem, found && !found.size ? "nothing matches" : "");
      return found;
    } catch (problem) {
      say(this.problem, /** @type {Error} */ (problem).message);
      return null;
    }
  }
}

/** @typedef {{cluster: Cluster, slot: number}} NodeItem */

/** @param {Cluster} cluster @param {Set<number> | null} shown @returns {NodeItem[]} */
function rows(cluster, shown) {
  const found = [];
  for (let slot = 0; slot < cluster.nodes.count; slot++) {
    if (cluster.nodes.name[slot] && (!shown || shown.has(slot))) found.push({ cluster, slot });
  }
  return found;
}

/** @param {(slot: number) => void} select @returns {VirtualTable<NodeItem>} */
function nodeTable(select) {
  const value = (/** @type {string} */ name) => (/** @type {NodeItem} */ i) => i.cluster.nodes.columns[name][i.slot];
  const used = (/** @type {"cpu" | "memory" | "gpu" | "pods"} */ name) => (/** @type {NodeItem} */ i) => i.cluster.used[name][i.slot];
  const part = (/** @type {"cpu" | "memory" | "gpu" | "pods"} */ name) => (/** @type {NodeItem} */ i) => used(name)(i) / (value(name)(i) || 1);
  return new VirtualTable("Nodes", [
    { title: "Node", width: 2.3, narrow: true, key: (i) => i.cluster.nodes.name[i.slot], cell: (i) => i.cluster.nodes.name[i.slot] },
    { title: "Zone", width: 2.5, key: (i) => i.cluster.label(i.slot, "topology.kubernetes.io/zone") ?? "", cell: (i) => i.cluster.label(i.slot, "topology.kubernetes.io/zone") ?? "" },
    { title: "CPU", width: 2.2, number: true, narrow: true, key: part("cpu"), cell: (i) => `${percent(used("cpu")(i), value("cpu")(i))} of ${cpu(value("cpu")(i))}` },
    { title: "Memory", width: 2.7, number: true, narrow: true, key: part("memory"), cell: (i) => `${percent(used("memory")(i), value("memory")(i))} of ${memory(value("memory")(i))}` },
    { title: "GPU", width: 1.1, number: true, key: used("gpu"), cell: (i) => (value("gpu")(i) ? `${used("gpu")(i)}/${value("gpu")(i)}` : "") },
    { title: "Pods", width: 1.6, number: true, narrow: true, key: used("pods"), cell: (i) => `${used("pods")(i)}/${value("pods")(i)}` },
    { title: "State", width: 3.9, key: (i) => -value("flags")(i), cell: (i) => stateText(i) },
    { title: "Taints", width: 4.3, key: (i) => i.cluster.text(value("taints")(i)), cell: (i) => i.cluster.text(value("taints")(i)).replaceAll("=:", ":") },
  ], { sort: 0, open: (i) => select(i.slot), empty: "No node matches the filter." });
}

/** @param {NodeItem} i */
function stateText(i) {
  const flags = i.cluster.nodes.columns.flags[i.slot];
  if (flags & GHOST) return "not in the cluster";
  return `${flags & READY ? "Ready" : "NotReady"}${flags & CORDONED ? ",SchedulingDisabled" : ""}`;
}
