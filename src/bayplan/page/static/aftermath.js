// The cluster after a what-if, made from the cluster before and what the engine then holds.

import { Cluster } from "./cluster.js";
import { wireTable } from "./history.js";

/** @import { Row } from "./cluster.js" */
/** @typedef {{pod: string, owner: string, from: string, to: string, why?: string}} Move */
/** @typedef {{pod: string, owner: string, node: string, new: boolean}} Start */
/** @typedef {{pod: string, owner: string, from: string, state: string, reason: string}} Stuck */
/** @typedef {{nodes: {total: number, usable: number}, running: number, pending: number}} Side */
/**
 * @typedef {object} WhatIf what `bayplan whatif -o json` prints
 * @property {string[]} changes
 * @property {boolean} ok
 * @property {Move[]} moves
 * @property {Start[]} starts
 * @property {Stuck[]} stuck
 * @property {{pod: string, node: string, by: string}[]} evictions
 * @property {string[]} deleted
 * @property {Start[]} anyway
 * @property {Side} before
 * @property {Side} after
 * @property {string[]} commands
 * @property {string[]} notes
 */

/** A copy that can be changed. @param {Cluster} cluster @returns {Cluster} */
function copied(cluster) {
  const copy = new Cluster({
    ...cluster.about, number: cluster.number, epoch: 0, time: cluster.time, phases: cluster.phases, places: cluster.places,
    fields: [cluster.nodes.fields, cluster.pods.fields], texts: [...cluster.texts], nodes: wireTable(cluster.nodes), pods: wireTable(cluster.pods),
  });
  copy.moment = cluster.moment;
  return copy;
}

/** @typedef {{texts: string[], nodes: Row[], pods: [string, Row | null][]}} After what is then different: rows with texts of their own; a pod names its node */

const NODE_TEXTS = ["labels", "taints", "conditions", "more"];
const POD_TEXTS = ["namespace", "owner", "labels"];

/**
 * The cluster before, as it was when asked, and afterwards, and the moves between slots of nodes.
 * @param {Cluster} asked @param {WhatIf} answer @param {After} after
 * @returns {{before: Cluster, cluster: Cluster, moves: import("./draw.js").Move[]}}
 */
export function aftermath(asked, answer, after) {
  const before = asked.about.live ? copied(asked) : asked; // a living cluster goes on
  const cluster = copied(before);
  const { nodes, pods } = cluster;
  const shift = cluster.texts.length - 1;
  cluster.texts.push(...after.texts.slice(1));
  /** @param {Row} row @param {string[]} fields @param {string[]} texts */
  const translated = (row, fields, texts) => row.map((value, i) => (texts.includes(fields[i]) && value ? Number(value) + shift : value));
  const slots = new Map(nodes.name.map((name, slot) => [name, slot]));
  for (const row of after.nodes) {
    const slot = slots.get(String(row[0])) ?? nodes.count;
    slots.set(String(row[0]), slot);
    cluster.apply([[0, slot, translated(row, nodes.fields, NODE_TEXTS)]]);
  }
  const known = new Map();
  for (let slot = 0; slot < pods.count; slot++) if (pods.name[slot]) known.set(cluster.podKey(slot), slot);
  const at = pods.fields.indexOf("node");
  for (const [key, row] of after.pods) {
    const fresh = row && translated(row, pods.fields, POD_TEXTS);
    if (fresh) fresh[at] = (slots.get(String(fresh[at])) ?? -1) + 1;
    cluster.apply([[1, known.get(key) ?? pods.count, fresh]]);
  }
  for (const key of answer.deleted ?? []) if (known.has(key)) cluster.apply([[1, known.get(key), null]]);
  /** @type {Map<string, {from: number, to: number, pods: number}>} */
  const moves = new Map();
  for (const move of answer.moves ?? []) {
    const [from, to] = [slots.get(move.from), slots.get(move.to)];
    if (from === undefined || to === undefined || from === to) continue;
    const same = moves.get(`${from} ${to}`);
    if (same) same.pods++;
    else moves.set(`${from} ${to}`, { from, to, pods: 1 });
  }
  return { before, cluster, moves: [...moves.values()] };
}
