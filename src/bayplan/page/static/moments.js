// Moments in addresses: `t` is seconds since the epoch of a running cluster, since its beginning of a
// run. So the address of a living cluster stays true, and two runs have the same moment.

import { clock, elapsed } from "./units.js";

/** @import { History } from "./history.js" */

/** The part of an address that every view keeps. @param {Record<string, string>} query @returns {{run?: string, t?: string}} */
export function momentOf({ run, t }) {
  return { run: run || undefined, t: t || undefined };
}

/** The time that an address names, inside of what is known; undefined for the latest. @param {History} history @param {string | undefined} t @param {boolean} wall */
export function timeOf(history, t, wall) {
  const seconds = Number(t || NaN);
  if (Number.isNaN(seconds)) return undefined;
  return Math.min(Math.max(wall ? seconds : history.start + seconds, history.start), history.end);
}

/** A time for an address: whole milliseconds, rounded up so that a change is part of its own moment. @param {History} history @param {number} time @param {boolean} wall */
export function textOf(history, time, wall) {
  return String(Math.ceil((wall ? time : time - history.start) * 1000) / 1000);
}

/** A time for a reader. @param {History} history @param {number} time @param {boolean} wall */
export function told(history, time, wall) {
  return wall ? clock(time) : elapsed(time - history.start);
}
