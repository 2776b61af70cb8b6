// The cluster after a what-if, made from the cluster before and the answer's moves.

import { Cluster } from "./cluster.js";

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
 * @property {Side} before
 * @property {Side} after
 * @property {string[]} commands
 * @property {string[]} notes
 */

/** A copy that can be changed. @param {Cluster} cluster @returns {Cluster} */
export function copied(cluster) {
  const table = (/** @type {import("./cluster.js").Table} */ from) => ({
    count: from.count,
    columns: {
      ...Object.fromEntries(Object.entries(from.columns).map(([name, column]) => [name, column.slice(0, from.count)])),
      name: from.name.join("\n"), message: Object.fromEntries(from.message),
    },
  });
  return new Cluster({
    ...cluster.about, number: cluster.number, epoch: 0, time: cluster.time, phases: cluster.phases, places: cluster.places,
    fields: [cluster.nodes.fields, cluster.pods.fields], texts: [...cluster.texts], nodes: table(cluster.nodes), pods: table(cluster.pods),
  });
}

/**
 * The cluster afterwards, and the moves between slots of nodes.
 * @param {Cluster} before @param {WhatIf} answer
 * @returns {{cluster: Cluster, moves: {from: number, to: number}[]}}
 */
export function aftermath(before, answer) {
  const cluster = copied(before);
  const slots = new Map(before.nodes.name.map((name, slot) => [name, slot]));
  const pods = new Map();
  for (let slot = 0; slot < before.pods.count; slot++) if (before.pods.name[slot]) pods.set(before.podKey(slot), slot);
  const nodeOf = (/** @type {string} */ name) => {
    const known = slots.get(name);
    if (known !== undefined) return known;
    const slot = cluster.nodes.count;
    const row = cluster.nodes.fields.map((field) => (field === "name" ? name : field === "flags" ? 1 : 0));
    cluster.apply([[0, slot, row]]);
    slots.set(name, slot);
    return slot;
  };
  const at = before.pods.fields.indexOf("node");
  const place = before.pods.fields.indexOf("place");
  const put = (/** @type {string} */ key, /** @type {number} */ node) => {
    let slot = pods.get(key);
    let row = slot === undefined ? null : cluster.pods.row(slot);
    if (!row) {
      slot = cluster.pods.count;
      row = cluster.pods.fields.map((field) => (field === "name" ? key.slice(key.indexOf("/") + 1) : field === "message" ? "" : 0));
    }
    row[at] = node + 1;
    row[place] = node < 0 ? 3 : 0;
    cluster.apply([[1, slot, row]]);
  };
  const moves = [];
  for (const move of answer.moves ?? []) {
    const to = nodeOf(move.to);
    const from = slots.get(move.from);
    put(move.pod, to);
    if (from !== undefined && from !== to) moves.push({ from, to });
  }
  for (const start of answer.starts ?? []) put(start.pod, nodeOf(start.node));
  for (const stuck of answer.stuck ?? []) if (stuck.state !== "blocked") put(stuck.pod, -1);
  for (const key of answer.deleted ?? []) {
    const slot = pods.get(key);
    if (slot !== undefined) cluster.apply([[1, slot, null]]);
  }
  flags(cluster, before, answer);
  return { cluster, moves };
}

/** Mark drained, cordoned and removed nodes. @param {Cluster} cluster @param {Cluster} before @param {WhatIf} answer */
function flags(cluster, before, answer) {
  for (const text of answer.changes) {
    const [verb, name] = text.split(" ");
    const slot = before.nodes.name.indexOf(name);
    if (slot < 0) continue;
    const now = cluster.nodes.columns.flags;
    if (verb === "drain" || verb === "cordon") now[slot] |= 2;
    if (verb === "uncordon") now[slot] &= ~2;
    if (verb === "remove") now[slot] = 4;
  }
}
