// Owners of pods as a what-if names them: NAMESPACE/KIND/NAME.

import { ownerName } from "./colouring.js";

/** @import { Cluster } from "./cluster.js" */

/**
 * All owners, sorted. A replica set with the hash of a template stands for its deployment.
 * @param {Cluster} cluster @returns {string[]}
 */
export function groupsOf(cluster) {
  const { name, columns } = cluster.pods;
  /** @type {Set<string>} */
  const found = new Set();
  for (let slot = 0; slot < name.length; slot++) {
    const owner = name[slot] ? cluster.text(columns.owner[slot]) : "";
    if (owner) found.add(`${cluster.text(columns.namespace[slot])}/${titled(owner)}`);
  }
  return [...found].sort();
}

/** @param {string} owner */
function titled(owner) {
  const cut = owner.indexOf("/");
  const [kind, name] = [owner.slice(0, cut), owner.slice(cut + 1)];
  const plain = ownerName(owner);
  return kind === "ReplicaSet" && plain !== name ? `deployment/${plain}` : `${kind.toLowerCase()}/${name}`;
}
