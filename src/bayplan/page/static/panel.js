// A node's panel, and the pods that wait, beside the map.

import { CORDONED, GHOST, READY, TERMINATING } from "./cluster.js";
import { ownerName } from "./colouring.js";
import { h, keep, notice } from "./dom.js";
import { formatRoute } from "./router.js";
import { VirtualTable } from "./table.js";
import { causes, lined } from "./queueing.js";
import { age, count, cpu, memory, percent } from "./units.js";

/** @import { Cluster, Resource } from "./cluster.js" */

/** @type {Record<Resource, (value: number) => string>} */
const FORMAT = { cpu, memory, gpu: count, pods: count };
const TITLE = { cpu: "CPU", memory: "Memory", gpu: "GPU", pods: "Pods" };

/** A bar with a label and numbers. @param {string} title @param {number} used @param {number} all @param {(value: number) => string} format @param {string} [more] in full, where the label is short */
export function meter(title, used, all, format, more = title) {
  const share = all ? Math.min(1, used / all) : 0;
  const inner = h("div", { class: used > all ? "over" : "" });
  inner.style.width = `${share * 100}%`;
  return h("div", { class: "meter" },
    h("span", { title: more }, title), h("div", { class: "track", "aria-hidden": "true" }, inner),
    h("span", { class: "number" }, `${format(used)} / ${format(all)}`),
    h("span", { class: "number dim" }, percent(used, all)));
}

/** The panel of one node. */
export class NodePanel {
  /** @param {(query: Record<string, string | undefined>) => string} link an address of this view with changes @param {string} [title] of the run, where there are two */
  constructor(link, title = "") {
    this.link = link;
    this.title = title;
    this.top = h("div", { class: "panel-top" });
    /** @type {VirtualTable<{cluster: Cluster, slot: number}>} */
    this.table = new VirtualTable("Pods of the node", [
      { title: "Pod", width: 5.2, narrow: true, key: (i) => i.cluster.pods.name[i.slot], cell: (i) => podLink(i.cluster, i.slot, true) },
      { title: "CPU", width: 1.25, number: true, narrow: true, key: (i) => i.cluster.pods.columns.cpu[i.slot], cell: (i) => cpu(i.cluster.pods.columns.cpu[i.slot]) },
      { title: "Memory", width: 1.75, number: true, narrow: true, key: (i) => i.cluster.pods.columns.memory[i.slot], cell: (i) => memory(i.cluster.pods.columns.memory[i.slot]) },
      { title: "State", width: 1.9, narrow: true, key: (i) => stateOf(i.cluster, i.slot), cell: (i) => stateOf(i.cluster, i.slot) },
    ], { sort: 1, down: true, empty: "No pods on this node." });
    this.root = h("section", { class: "panel", "aria-label": "Node" }, this.top, this.table.root);
  }

  /** @param {Cluster} cluster @param {string} node @param {number} [pod] that was chosen on it */
  show(cluster, node, pod = -1) {
    const slot = cluster.nodeSlot(node);
    this.table.root.hidden = slot < 0;
    if (slot < 0) this.missing(node, cluster);
    else this.present(cluster, slot, pod);
  }

  /** @param {string} name */
  head(name) {
    return h("div", { class: "panel-head" }, h("h2", { tabindex: "-1" }, name),
      h("a", { class: "quiet close", href: this.link({ node: undefined, pod: undefined }), "aria-label": "Close the node", title: "Close (Esc)" }, "✕"));
  }

  /** @param {string} name @param {Cluster} cluster */
  missing(name, { moment }) {
    keep(this.top, this.head(name), h("p", { class: "dim" }, `${this.title ? `In ${this.title} this` : "This"} node ${moment.t ? "was not there at this moment" : "is not in the cluster"}.`));
  }

  /** @param {Cluster} cluster @param {number} slot @param {number} pod */
  present(cluster, slot, pod) {
    const { name, columns } = cluster.nodes;
    const flags = columns.flags[slot];
    const words = [];
    if (this.title) words.push(h("span", { class: "dim" }, `in ${this.title}`));
    if (flags & GHOST) words.push(h("span", { class: "chip bad" }, "not in the cluster"));
    else words.push(h("span", { class: `chip ${flags & READY ? "good" : "bad"}` }, flags & READY ? "Ready" : "NotReady"));
    if (flags & CORDONED) words.push(h("span", { class: "chip warn" }, "SchedulingDisabled"));
    const taints = cluster.text(columns.taints[slot]).replaceAll("=:", ":");
    const conditions = cluster.text(columns.conditions[slot]);
    const labels = [...cluster.labels(cluster.nodes, slot)];
    const more = cluster.text(columns.more[slot]).split(",").filter(Boolean).map(amount).join(", ");
    const meters = /** @type {Resource[]} */ (["cpu", "memory", "gpu", "pods"])
      .filter((kind) => columns[kind][slot] || cluster.used[kind][slot])
      .map((kind) => meter(TITLE[kind], cluster.used[kind][slot], columns[kind][slot], FORMAT[kind]));
    keep(this.top,
      this.head(name[slot]),
      h("p", { class: "chips" }, words, columns.created[slot] ? h("span", { class: "dim" }, `${age(cluster.time - columns.created[slot])} old`) : null,
        flags & GHOST ? null : h("a", { href: formatRoute("what-if", "", { ...cluster.moment, change: `drain=${name[slot]}` }) }, "what if drained?")),
      pod >= 0 ? h("p", { class: "chosen-pod" }, h("b", null, podLink(cluster, pod)), " ", h("span", { class: "dim" }, podFacts(cluster, pod))) : null,
      flags & GHOST ? null : meters,
      conditions ? h("p", { class: "bad" }, conditions) : null,
      taints ? fact("Taints", taints.split(",")) : null,
      more ? fact("Also", [more]) : null,
      labels.length ? h("details", null, h("summary", null, "Labels"), h("ul", { class: "labels" }, labels.map(([k, v]) => h("li", null, h("code", null, `${k}=${v}`))))) : null);
    this.table.show(cluster.podsOn(slot).map((at) => ({ cluster, slot: at })));
  }
}

/**
 * Let a node's panel be closed by its cross and by Escape, and the focus go where the node was chosen.
 * @param {HTMLElement} aside @param {() => void} close @param {() => void} back
 */
export function closable(aside, close, back) {
  const shut = (/** @type {Event} */ event) => {
    event.preventDefault();
    back();
    close();
  };
  aside.addEventListener("click", (event) => /** @type {Element} */ (event.target).closest(".close") && shut(event));
  aside.addEventListener("keydown", (event) => event.key === "Escape" && aside.querySelector(".close") && shut(event));
}

/** ephemeral-storage=123 → ephemeral-storage 123 in units. @param {string} text */
function amount(text) {
  const [name, value] = text.split("=");
  const bytes = name === "ephemeral-storage" || name.startsWith("hugepages-");
  return `${name} ${bytes ? memory(Number(value)) : count(Number(value))}`;
}

/** @param {string} name @param {string[]} values */
function fact(name, values) {
  return h("p", { class: "fact" }, h("span", { class: "dim" }, `${name} `), values.map((value) => h("code", null, value)));
}

/** @param {Cluster} cluster @param {number} slot @param {boolean} [tight] the name first, for narrow columns that cut the end */
export function podLink(cluster, slot, tight = false) {
  const key = cluster.podKey(slot);
  const [space, name] = key.split("/");
  const where = space === "default" ? null : h("span", { class: "dim" }, tight ? ` ${space}` : `${space}/`);
  return h("a", { href: formatRoute("pod", key, cluster.moment) }, tight ? [name, where] : [where, name]);
}

/** A pod's phase as kubectl tells it; manifests and some dumps tell none. @param {Cluster} cluster @param {number} slot */
export function stateOf(cluster, slot) {
  const { flags, node, phase, place } = cluster.pods.columns;
  if (flags[slot] & TERMINATING) return "Terminating";
  return cluster.phases[phase[slot]] || (node[slot] ? "Bound" : cluster.places[place[slot]]);
}

/** @param {Cluster} cluster @param {number} slot */
export function podFacts(cluster, slot) {
  const { columns } = cluster.pods;
  const owner = ownerName(cluster.text(columns.owner[slot]));
  const gpu = columns.gpu[slot] ? ` · gpu ${count(columns.gpu[slot])}` : "";
  return `${stateOf(cluster, slot)} · cpu ${cpu(columns.cpu[slot])} · memory ${memory(columns.memory[slot])}${gpu}${owner ? ` · of ${owner}` : ""}`;
}

/** The pods that wait, by cause. */
export class PendingPanel {
  /** @param {string} [title] of the run, where there are two */
  constructor(title = "") {
    this.title = title;
    this.root = h("section", { class: "panel", "aria-label": "Pending pods" });
    this.shown = "";
  }

  /** @param {Cluster} cluster */
  show(cluster) {
    const found = causes(cluster);
    const key = JSON.stringify([cluster.moment, found.map((cause) => [cause.title, cause.slots.length, cause.slots.slice(0, 4)])]);
    if (key === this.shown) return;
    this.shown = key;
    const title = h("h2", null, this.title ? `Pending in ${this.title}` : "Pending");
    if (!found.length) {
      keep(this.root, h("div", { class: "panel-head" }, title), notice("Nothing waits", cluster.moment.t ? "Every pod had a node." : "Every pod has a node."));
      return;
    }
    keep(this.root,
      h("div", { class: "panel-head" }, title, h("a", { href: formatRoute("queue", "", cluster.moment) }, `${count(cluster.waiting.size)} in the queue`)),
      h("ul", { class: "causes" }, found.slice(0, 40).map((cause) => h("li", null,
        h("p", null, h("b", { class: "number" }, count(cause.slots.length)), " ", lined(cause.title)),
        h("p", { class: "dim" }, cause.slots.slice(0, 4).map((slot, i) => [i ? ", " : "", podLink(cluster, slot)]).flat(),
          cause.slots.length > 4 ? ` and ${count(cause.slots.length - 4)} more` : "")))));
  }
}
