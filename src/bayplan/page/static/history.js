// What happened: the cluster at the beginning and every change since; any moment can be made again.
//
// Going forward applies changes; going back begins at the nearest earlier mark. Marks are copies of
// all rows, taken every so many changes, few of them.

import { BOUND, Cluster, DISRUPTED, FINISHED } from "./cluster.js";

/** @import { Change, Frame, WireCluster } from "./cluster.js" */
/** @typedef {WireCluster & {end: number, frames: [number, Change[]][]}} WireHistory */
/**
 * @typedef {object} Series what happened in each of equal slices of time
 * @property {number} start
 * @property {number} end
 * @property {Float64Array} arrivals
 * @property {Float64Array} bindings
 * @property {Float64Array} evictions
 * @property {Float64Array} pending at the end of the slice
 * @property {Float64Array} cpu share of what nodes have
 * @property {Float64Array} memory share
 * @property {Float64Array} nodes
 */

const MOST_FRAMES = 20_000;
const MILLISECOND = 0.001;
const MINUTE = 60;

export class History {
  /** @param {WireHistory} wire */
  constructor(wire) {
    this.wire = wire;
    this.start = wire.time;
    this.end = Math.max(wire.end, wire.time);
    this.frames = wire.frames;
    /** @type {Cluster | null} */
    this.moment = null;
    this.applied = 0;
    this.grown = 0;
  }

  /** Take over what happens now, unless it is known. @param {Frame} frame */
  add({ number, time, texts: [from, fresh], changes }) {
    if (number <= this.wire.number) return;
    this.wire.number = number;
    this.wire.texts.length = from;
    for (const text of fresh) this.wire.texts.push(text);
    this.frames.push([time, changes]);
    this.end = Math.max(this.end, time);
    this.grown++;
    if (this.frames.length > MOST_FRAMES) this.forget();
  }

  /** Fold the older half into the beginning. */
  forget() {
    const half = this.frames.splice(0, this.frames.length >> 1);
    const cluster = new Cluster(this.wire);
    for (const [, changes] of half) cluster.apply(changes);
    const last = half[half.length - 1][0];
    this.wire = { ...this.wire, time: last, nodes: wireTable(cluster.nodes), pods: wireTable(cluster.pods) };
    this.start = last;
    this.moment = null;
  }

  /** The cluster at a moment. It is the same object each time. @param {number} time @returns {Cluster} */
  at(time) {
    if (!this.moment || (this.applied > 0 && this.frames[this.applied - 1][0] > time)) {
      this.moment = new Cluster(this.wire);
      this.applied = 0;
    }
    const cluster = this.moment;
    while (this.applied < this.frames.length && this.frames[this.applied][0] <= time) {
      cluster.apply(this.frames[this.applied][1]);
      this.applied++;
    }
    cluster.time = time;
    return cluster;
  }

  /**
   * Times of frames before and after a moment, for stepping. An address keeps moments in whole
   * milliseconds, rounded up so that a frame is part of its own: what lies less than one before the
   * moment is what it shows.
   * @param {number} time @param {1 | -1} step
   */
  neighbour(time, step) {
    if (step > 0) return this.frames.find(([at]) => at > time)?.[0] ?? this.end;
    for (let i = this.frames.length - 1; i >= 0; i--) {
      if (this.frames[i][0] <= time - MILLISECOND) return this.frames[i][0];
    }
    return this.start;
  }

  /** @param {number} slices @returns {Series} */
  series(slices) {
    return series(this.wire, this.frames, this.start, this.end, slices);
  }

  /** What arrived and was bound in the last minute before a moment. @param {number} time @returns {Pace} */
  pace(time) {
    const from = Math.max(this.start, time - MINUTE);
    const found = series(this.wire, this.frames.filter(([at]) => at <= time), from, time, 1);
    return { arrived: found.arrivals[0], bound: found.bindings[0], span: time - from };
  }
}

/** @typedef {{arrived: number, bound: number, span: number}} Pace how many in how many seconds */

/** Counts what the stream brings, over the last minute. */
export class Rates {
  constructor() {
    /** @type {{time: number, arrived: number, bound: number}[]} */
    this.marks = [];
    /** @type {number | null} */
    this.since = null;
  }

  /** From here on everything is seen. @param {number} time */
  begin(time) {
    this.since ??= time;
  }

  /** @param {Cluster} cluster before the frame @param {Frame} frame */
  see(cluster, { time, changes }) {
    const mark = { time, arrived: 0, bound: 0 };
    for (const change of changes) {
      const { arrived, bound } = happened(cluster, change);
      mark.arrived += Number(arrived);
      mark.bound += Number(bound);
    }
    this.marks.push(mark);
    while (this.marks[0].time < time - MINUTE) this.marks.shift();
  }

  /** @param {number} now @returns {Pace} */
  of(now) {
    const recent = this.marks.filter((mark) => mark.time >= now - MINUTE);
    const sum = (/** @type {"bound" | "arrived"} */ key) => recent.reduce((total, mark) => total + mark[key], 0);
    return { arrived: sum("arrived"), bound: sum("bound"), span: Math.min(MINUTE, now - (this.since ?? now)) };
  }
}

/** A table as it came over the wire. @param {import("./cluster.js").Table} table */
export function wireTable(table) {
  return {
    count: table.count,
    columns: {
      ...Object.fromEntries(Object.entries(table.columns).map(([k, v]) => [k, v.slice(0, table.count)])),
      name: table.name.join("\n"),
      message: Object.fromEntries(table.message),
    },
  };
}

/**
 * Count what happened in equal slices of time.
 * @param {WireCluster} wire
 * @param {[number, Change[]][]} frames
 * @param {number} start @param {number} end @param {number} slices
 * @returns {Series}
 */
export function series(wire, frames, start, end, slices) {
  const cluster = new Cluster(wire);
  const found = {
    start,
    end,
    arrivals: new Float64Array(slices),
    bindings: new Float64Array(slices),
    evictions: new Float64Array(slices),
    pending: new Float64Array(slices),
    cpu: new Float64Array(slices),
    memory: new Float64Array(slices),
    nodes: new Float64Array(slices),
  };
  const width = Math.max(end - start, 1e-9) / slices;
  let slice = 0;
  const measure = (/** @type {number} */ until) => {
    if (slice >= until) return;
    const { sums, waiting, nodes } = cluster.totals();
    for (; slice < until; slice++) {
      found.pending[slice] = waiting;
      found.cpu[slice] = sums.cpu.all ? sums.cpu.used / sums.cpu.all : 0;
      found.memory[slice] = sums.memory.all ? sums.memory.used / sums.memory.all : 0;
      found.nodes[slice] = nodes;
    }
  };
  for (const [time, changes] of frames) {
    const here = Math.min(slices - 1, Math.max(0, Math.floor((time - start) / width)));
    measure(here);
    for (const change of time >= start ? changes : []) {
      const { arrived, bound, evicted } = happened(cluster, change);
      found.arrivals[here] += Number(arrived);
      found.bindings[here] += Number(bound);
      found.evictions[here] += Number(evicted);
    }
    cluster.apply(changes);
  }
  measure(slices);
  return found;
}

/** What a change means for its pod. @param {Cluster} cluster before the change @param {Change} change */
function happened({ pods }, [table, slot, row]) {
  if (table !== 1 || !row) return { arrived: false, bound: false, evicted: false };
  const value = (/** @type {string} */ field) => Number(row[pods.fields.indexOf(field)]);
  const known = slot < pods.count ? pods.name[slot] : "";
  const same = known !== "" && row[0] === known;
  const had = same && pods.columns.node[slot] > 0;
  const before = same && pods.columns.flags[slot] & DISRUPTED;
  const bound = !had && (value("place") === BOUND || (value("place") === FINISHED && same && value("node") > 0));
  return { arrived: !same, bound, evicted: Boolean(value("flags") & DISRUPTED) && !before };
}
