// How every node was judged for a pod: by verdict, the best by score, and what put one before another.

import { count } from "./units.js";

/** @typedef {{plugins: string[], scored: (string | number)[][], reasons: string[], rejected: [string, number][]}} Judged */
/** @typedef {{node: string, total: number, plugins: Record<string, number>}} Score */
/** @typedef {{plugin: string, reasons: string[], nodes: number, examples?: string[], fits?: boolean}} Verdict */

const BEST = 6;
const EXAMPLES = 4;

/** Nodes by verdict where some fit; those that nobody looked at are told apart. @param {Judged} judged @param {number} nodes @returns {Verdict[]} */
export function verdicts({ scored, reasons, rejected }, nodes) {
  /** @type {Verdict[]} */
  const rows = reasons.map((text) => {
    const cut = text.indexOf(": ");
    return { plugin: cut < 0 ? "" : text.slice(0, cut), reasons: [text.slice(cut < 0 ? 0 : cut + 2)], nodes: 0, examples: [] };
  });
  for (const [node, reason] of rejected) {
    rows[reason].nodes++;
    if (rows[reason].nodes <= EXAMPLES) rows[reason].examples?.push(node);
  }
  rows.sort((a, b) => b.nodes - a.nodes);
  const left = nodes - scored.length - rejected.length;
  return [
    { plugin: "", reasons: [scored.length === 1 ? "fits" : "fit"], nodes: scored.length, fits: true }, ...rows,
    ...(left > 0 ? [{ plugin: "", reasons: ["not looked at, as enough fit"], nodes: left }] : []),
  ];
}

/** The best nodes with their scores, and the chosen one wherever it is. @param {Judged} judged @param {string} chosen @returns {Score[]} */
export function best({ plugins, scored }, chosen) {
  const rows = scored.map(([node, total, ...parts]) => ({
    node: String(node), total: Number(total), plugins: Object.fromEntries(plugins.map((plugin, i) => [plugin, Number(parts[i])])),
  }));
  rows.sort((a, b) => b.total - a.total || Number(b.node === chosen) - Number(a.node === chosen) || (a.node < b.node ? -1 : 1));
  return rows.filter((row, i) => i < BEST || row.node === chosen);
}

/** What put the chosen node before the next one, or another before it since. @param {Score[]} found the best first @param {string} chosen @param {boolean} bound whether the pod is there already */
export function runnerUp(found, chosen, bound) {
  const here = found.find(({ node }) => node === chosen);
  if (!here) return "";
  const other = found.find(({ node }) => node !== chosen);
  if (!other) return `${chosen} is the only node that fits.`;
  const gap = here.total - other.total;
  if (!gap) return `${chosen} and ${other.node} score the same; the scheduler draws between equals.`;
  const [first, second] = gap > 0 ? [here, other] : [other, here];
  const parts = Object.keys(first.plugins).map((plugin) => ({ plugin, more: first.plugins[plugin] - second.plugins[plugin] })).filter(({ more }) => more);
  const why = parts.map(({ plugin, more }) => `${plugin} ${more > 0 ? "+" : "−"}${count(Math.abs(more))}`).join(", ");
  if (gap > 0) return `${chosen} is ${count(gap)} ahead of the runner-up ${other.node}: ${why}.`;
  return bound ? `${other.node} is ${count(-gap)} ahead of ${chosen} now.` : `${other.node} is ${count(-gap)} ahead of ${chosen}: ${why}.`;
}
