// Which labels can group nodes, and which nodes a filter leaves.

import { matches, parse } from "./selector.js";

/** @import { Cluster } from "./cluster.js" */

const LIKELY = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region", "rack", "topology.kubernetes.io/rack"];
const DULL = ["kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch", "beta.kubernetes.io/os", "beta.kubernetes.io/arch"];
const PLACE = /rack|zone|region|pool/;
const MOST_GROUPS = 600;

/**
 * Labels of nodes that have more than one node a value, the likely ones first.
 * @param {Cluster} cluster
 * @returns {string[]}
 */
export function groupKeys(cluster) {
  /** @type {Map<string, Set<string>>} */
  const values = new Map();
  const seen = new Set();
  let nodes = 0;
  for (let slot = 0; slot < cluster.nodes.count; slot++) {
    if (!cluster.nodes.name[slot]) continue;
    nodes++;
    const text = cluster.nodes.columns.labels[slot];
    if (seen.has(text)) continue;
    seen.add(text);
    for (const [key, value] of cluster.labels(cluster.nodes, slot)) {
      const known = values.get(key);
      if (known) known.add(value);
      else values.set(key, new Set([value]));
    }
  }
  const good = [...values]
    .filter(([key, set]) => !DULL.includes(key) && set.size <= MOST_GROUPS && (set.size < nodes || PLACE.test(key)))
    .map(([key]) => key);
  const rank = (/** @type {string} */ key) => (LIKELY.indexOf(key) + 1 || (PLACE.test(key) ? 50 : 99));
  return good.sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
}

/**
 * Nodes that a selector leaves: their own labels, or those of pods on them. Null for no filter.
 * @param {Cluster} cluster @param {string} text @param {"nodes" | "pods"} of
 * @returns {Set<number> | null}
 */
export function filtered(cluster, text, of) {
  if (!text.trim()) return null;
  const wanted = parse(text);
  /** @type {Set<number>} */
  const found = new Set();
  const table = of === "pods" ? cluster.pods : cluster.nodes;
  /** @type {Map<number, boolean>} */
  const answers = new Map();
  for (let slot = 0; slot < table.count; slot++) {
    if (!table.name[slot]) continue;
    const set = table.columns.labels[slot];
    let ok = cluster.text(set).includes("=*") ? undefined : answers.get(set);
    if (ok === undefined) {
      ok = matches(wanted, cluster.labels(table, slot));
      answers.set(set, ok);
    }
    if (!ok) continue;
    if (of === "nodes") found.add(slot);
    else if (cluster.pods.columns.node[slot]) found.add(cluster.pods.columns.node[slot] - 1);
  }
  return found;
}

/**
 * Nodes and pods whose name holds a text, those that begin with it first.
 * @param {Cluster} cluster @param {string} text @param {number} most
 * @returns {{kind: "node" | "pod", name: string, slot: number}[]}
 */
export function search(cluster, text, most) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return [];
  const [space, bare] = wanted.includes("/") ? wanted.split("/", 2) : ["", wanted];
  /** @type {{kind: "node" | "pod", name: string, slot: number, rank: number}[]} */
  const found = [];
  const look = (/** @type {import("./cluster.js").Table} */ table, /** @type {"node" | "pod"} */ kind) => {
    for (let slot = 0; slot < table.count; slot++) {
      const name = table.name[slot];
      if (!name) continue;
      const at = name.toLowerCase().indexOf(bare);
      if (at < 0) continue;
      if (space && (kind === "node" || !cluster.text(table.columns.namespace[slot]).startsWith(space))) continue;
      found.push({ kind, name: kind === "pod" ? cluster.podKey(slot) : name, slot, rank: (name.length === bare.length ? 0 : at ? 2 : 1) + (kind === "pod" ? 0.5 : 0) });
      if (found.length > 2000) return;
    }
  };
  look(cluster.nodes, "node");
  look(cluster.pods, "pod");
  return found.sort((a, b) => a.rank - b.rank || (a.name < b.name ? -1 : 1)).slice(0, most);
}
