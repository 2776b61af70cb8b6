// Which nodes two runs use differently at the same moment.

/** @import { Cluster } from "./cluster.js" */

/**
 * Slots of `cluster` whose node the other run does not have, or that carry another load there.
 * @param {Cluster} cluster @param {Cluster} other
 * @returns {Set<number>}
 */
export function differing(cluster, other) {
  const there = new Map(other.nodes.name.map((name, slot) => [name, slot]));
  /** @type {Set<number>} */
  const found = new Set();
  cluster.nodes.name.forEach((name, slot) => {
    if (!name) return;
    const twin = there.get(name);
    if (twin === undefined || load(cluster, slot) !== load(other, twin)) found.add(slot);
  });
  return found;
}

/** @param {Cluster} cluster @param {number} slot */
function load(cluster, slot) {
  const { used, nodes } = cluster;
  return [used.pods[slot], used.cpu[slot], used.memory[slot], used.gpu[slot], nodes.columns.flags[slot]].join();
}
