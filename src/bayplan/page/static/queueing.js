// The scheduler's queue as the page knows it: where each pod waits, and why, gathered by cause.

import { count, elapsed } from "./units.js";

/** @import { Cluster } from "./cluster.js" */
/** @typedef {{title: string, place: string, slots: number[]}} Cause */

export const ORDER = ["active", "backoff", "unschedulable", "gated", "waiting", "binding"];
/** @type {Record<string, string>} */
const MEANING = {
  active: "to be tried next",
  backoff: "tried and waiting a moment",
  unschedulable: "no node fits",
  gated: "held back by scheduling gates",
  waiting: "held by a Permit plugin",
  binding: "a node was chosen",
};
/** What the objects alone tell. @type {Record<string, [string, string]>} */
const BY_OBJECT = {
  active: ["no verdict", "nothing is written on them yet"],
  unschedulable: ["unschedulable", "no node fitted when last tried"],
  gated: ["gated", MEANING.gated],
};

/**
 * The places that are known of a cluster: key, title and meaning. Only its own scheduler knows all of them.
 * @param {Cluster} cluster @returns {{name: string, title: string, meaning: string}[]}
 */
export function places(cluster) {
  if (cluster.about.queue === "scheduler") return ORDER.map((name) => ({ name, title: name, meaning: MEANING[name] }));
  return Object.entries(BY_OBJECT).map(([name, [title, meaning]]) => ({ name, title, meaning }));
}

/** What a place means in this cluster. @param {Cluster} cluster @param {string} place */
export function meaningOf(cluster, place) {
  return places(cluster).find(({ name }) => name === place)?.meaning ?? MEANING[place];
}

/** What a place is called in this cluster. @param {Cluster} cluster @param {string} place */
export function titleOf(cluster, place) {
  return places(cluster).find(({ name }) => name === place)?.title ?? place;
}

/**
 * A scheduler's message without its numbers and names of nodes, so that equal causes are equal.
 * @param {string} message
 */
export function causeOf(message) {
  const text = message.replace(/^0\/\d+ nodes are available: /, "");
  const [first] = text.split(/\. preemption: |\. no new claims/);
  const parts = first
    .replace(/\.$/, "")
    .split(/, (?=\d+ )/)
    .map((part) => part.replace(/^\d+ /, "").trim())
    .filter(Boolean)
    .map((part) => part.replace(/^node\(s\) /, ""));
  return [...new Set(parts)].sort().join(" · ");
}

/** A cause for a reader: a line does not begin with the dot between two. @param {string} cause */
export function lined(cause) {
  return cause.replaceAll(" · ", "\u00a0· ");
}

/** Pods that wait, by place and cause, the largest first. @param {Cluster} cluster @returns {Cause[]} */
export function causes(cluster) {
  /** @type {Map<string, Cause>} */
  const found = new Map();
  for (const slot of cluster.waiting) {
    const place = cluster.places[cluster.pods.columns.place[slot]];
    const message = cluster.pods.message.get(slot) ?? "";
    const title = place === "gated" ? `gated: ${message}` : place === "active" || place === "binding" || place === "waiting"
      ? `${titleOf(cluster, place)}: ${meaningOf(cluster, place)}` : causeOf(message) || place;
    const known = found.get(`${place} ${title}`);
    if (known) known.slots.push(slot);
    else found.set(`${place} ${title}`, { title, place, slots: [slot] });
  }
  return [...found.values()].sort((a, b) => b.slots.length - a.slots.length || (a.title < b.title ? -1 : 1));
}

/** How many pods wait where. @param {Cluster} cluster @returns {Record<string, number>} */
export function sizes(cluster) {
  /** @type {Record<string, number>} */
  const found = Object.fromEntries(ORDER.map((name) => [name, 0]));
  for (const slot of cluster.waiting) found[cluster.places[cluster.pods.columns.place[slot]]]++;
  return found;
}

/** Seconds that a pod has waited, -1 where nothing tells since when. @param {Cluster} cluster @param {number} slot */
export function waits(cluster, slot) {
  const made = cluster.pods.columns.created[slot];
  return made ? Math.max(0, cluster.time - made) : -1;
}

/** The longest wait in each place, in seconds; -1 where none is known. @param {Cluster} cluster @returns {Record<string, number>} */
export function longest(cluster) {
  /** @type {Record<string, number>} */
  const found = Object.fromEntries(ORDER.map((name) => [name, -1]));
  for (const slot of cluster.waiting) {
    const place = cluster.places[cluster.pods.columns.place[slot]];
    found[place] = Math.max(found[place], waits(cluster, slot));
  }
  return found;
}

/** How fast pods come and go, in words; of a span that is seen only in part it is said. @param {{arrived: number, bound: number, span: number}} pace @param {string} when */
export function paceText({ arrived, bound, span }, when) {
  if (span < 1) return "";
  const seen = span >= 59.5 ? `${when} minute` : `${when} ${elapsed(Math.round(span))}`;
  if (!arrived && !bound) return `No pod arrived or was bound in the ${seen}.`;
  const said = (/** @type {number} */ number) => `${count(number)}${number >= span ? ` (${(number / span).toFixed(1)}/s)` : ""}`;
  return `${said(arrived)} arrived and ${said(bound)} ${bound === 1 ? "was" : "were"} bound in the ${seen}.`;
}
