// What a node's colour says: an amount, or a name. Gives each node a number, each number a meaning.

import { CORDONED, GHOST, READY } from "./cluster.js";
import { NAMES, named, ramp, step, STEPS } from "./palette.js";

/** @import { Cluster, Resource } from "./cluster.js" */
/** @import { Theme } from "./palette.js" */
/** @typedef {{label: string, colour: string, nodes: number}} Key one line of the legend */
/**
 * @typedef {object} Colouring
 * @property {boolean} amounts whether it is a ramp
 * @property {(slot: number) => number} of the number of a node's colour
 * @property {string[]} colours
 * @property {Key[]} keys
 * @property {(owner: string) => string} [ofOwner] the colour of an owner's pods, where nodes are coloured by owner
 */

/** What can be chosen: [name in the address, label]. @type {[string, string][]} */
export const COLOURS = [
  ["cpu", "CPU requested"],
  ["memory", "Memory requested"],
  ["gpu", "GPU requested"],
  ["pods", "Pods"],
  ["free", "Free space"],
  ["taints", "Taints"],
  ["pool", "Pool"],
  ["owner", "Owner of most pods"],
  ["state", "State"],
];

const POOLS = ["karpenter.sh/nodepool", "cloud.google.com/gke-nodepool", "eks.amazonaws.com/nodegroup",
  "kubernetes.azure.com/agentpool", "agentpool", "doks.digitalocean.com/node-pool", "node.kubernetes.io/pool",
  "pool", "node-pool", "nodepool", "node.kubernetes.io/instance-type"];

/** What is requested of what there is: of nothing it is no number, or more than any. @param {Cluster} cluster @param {number} slot @param {Resource} name */
export function share(cluster, slot, name) {
  const all = cluster.nodes.columns[name][slot];
  return all ? cluster.used[name][slot] / all : cluster.used[name][slot] ? Infinity : NaN;
}

/** The label that names pools in this cluster, or "". @param {Cluster} cluster @param {number[]} slots */
function poolLabel(cluster, slots) {
  const sample = slots.slice(0, 200);
  return POOLS.find((key) => sample.some((slot) => cluster.label(slot, key) !== undefined)) ?? "";
}

/** A pod's owner without the hash of its template. @param {string} owner */
export function ownerName(owner) {
  const cut = owner.indexOf("/");
  const [kind, name] = [owner.slice(0, cut), owner.slice(cut + 1)];
  return kind === "ReplicaSet" ? name.replace(/-[a-z0-9]{6,10}$/, "") : name;
}

/** @param {Cluster} cluster @param {number} slot */
function mostlyOwnedBy(cluster, slot) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (let at = cluster.first[slot]; at; at = cluster.next[at - 1]) {
    const owner = cluster.text(cluster.pods.columns.owner[at - 1]);
    counts.set(owner, (counts.get(owner) ?? 0) + 1);
  }
  let best = "";
  let most = 0;
  for (const [owner, number] of counts) {
    if (number > most || (number === most && owner < best)) [best, most] = [owner, number];
  }
  return most ? ownerName(best) || "no owner" : "no pods";
}

/** @param {Cluster} cluster @param {number} slot */
function stateOf(cluster, slot) {
  const flags = cluster.nodes.columns.flags[slot];
  if (flags & GHOST) return "not in the cluster";
  if (!(flags & READY)) return "not ready";
  if (flags & CORDONED) return "cordoned";
  return cluster.text(cluster.nodes.columns.conditions[slot]) ? "under pressure" : "ready";
}

/**
 * @param {Cluster} cluster @param {number[]} slots @param {string} mode @param {Theme} theme
 * @returns {Colouring}
 */
export function colouring(cluster, slots, mode, theme) {
  if (mode === "owner") return byName(slots, (slot) => mostlyOwnedBy(cluster, slot), theme, true);
  if (mode === "taints") {
    return byName(slots, (slot) => cluster.text(cluster.nodes.columns.taints[slot]).replaceAll("=:", ":") || "no taints", theme);
  }
  if (mode === "pool") {
    const key = poolLabel(cluster, slots);
    return byName(slots, (slot) => (key && cluster.label(slot, key)) || "no pool", theme);
  }
  if (mode === "state") return byName(slots, (slot) => stateOf(cluster, slot), theme);
  if (mode === "free") {
    return byAmount(slots, theme, (slot) => {
      const shares = [share(cluster, slot, "cpu"), share(cluster, slot, "memory"), share(cluster, slot, "pods")];
      return Math.max(0, 1 - Math.max(...shares.filter((value) => !Number.isNaN(value)), 0));
    });
  }
  const name = /** @type {Resource} */ (["cpu", "memory", "gpu", "pods"].includes(mode) ? mode : "cpu");
  return byAmount(slots, theme, (slot) => share(cluster, slot, name));
}

/** @param {number[]} slots @param {Theme} theme @param {(slot: number) => number} value @returns {Colouring} */
function byAmount(slots, theme, value) {
  const colours = Array.from({ length: STEPS }, (_, i) => ramp(theme, i));
  const counts = new Array(STEPS).fill(0);
  for (const slot of slots) counts[step(value(slot))]++;
  const width = 100 / (STEPS - 2);
  const keys = colours.map((colour, i) => {
    let label = `${Math.round((i - 1) * width)}–${Math.round(i * width)}%`;
    if (i === 0) label = "none";
    if (i === STEPS - 1) label = "over 100%";
    return { label, colour, nodes: counts[i] };
  });
  return { amounts: true, of: (slot) => step(value(slot)), colours, keys };
}

/** @param {number[]} slots @param {(slot: number) => string} value @param {Theme} theme @param {boolean} [owners] whether the names are owners @returns {Colouring} */
function byName(slots, value, theme, owners = false) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const slot of slots) counts.set(value(slot), (counts.get(value(slot)) ?? 0) + 1);
  const ranked = [...counts].sort(([a, n], [b, m]) => m - n || (a < b ? -1 : 1)).map(([name]) => name);
  const plain = ["no taints", "no pool", "no pods", "ready"];
  const special = ranked.filter((name) => !plain.includes(name)).slice(0, NAMES - 1);
  const grey = ramp(theme, 1);
  const colours = [grey, ...special.map((_, i) => named(theme, i)), named(theme, NAMES - 1)];
  const numbers = new Map(special.map((name, i) => [name, i + 1]));
  const number = (/** @type {string} */ name) => (plain.includes(name) ? 0 : (numbers.get(name) ?? special.length + 1));
  const keys = [];
  for (const name of ranked.filter((item) => plain.includes(item))) keys.push({ label: name, colour: grey, nodes: counts.get(name) ?? 0 });
  for (const name of special) keys.push({ label: name, colour: colours[numbers.get(name) ?? 0], nodes: counts.get(name) ?? 0 });
  const rest = ranked.filter((name) => !plain.includes(name) && !numbers.has(name));
  if (rest.length) {
    const nodes = rest.reduce((sum, name) => sum + (counts.get(name) ?? 0), 0);
    keys.push({ label: `${rest.length} others`, colour: colours[special.length + 1], nodes });
  }
  return { amounts: false, of: (slot) => number(value(slot)), colours, keys, ofOwner: owners ? (owner) => colours[number(owner)] : undefined };
}
