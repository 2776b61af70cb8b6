// The cluster in columns: typed arrays by slot, sums by node, and lists of each node's pods.
//
// A slot holds one object; an empty slot has the name "". Changes keep the sums right as they come,
// so that nothing is ever counted anew while a picture is drawn.

/** @typedef {(string | number)[]} Row */
/** @typedef {[number, number, Row | null]} Change table, slot, row */
/** @typedef {{number: number, time: number, texts: [number, string[]], changes: Change[]}} Frame of the stream */
/** @typedef {{count: number, columns: Record<string, any>}} WireTable */
/** @typedef {{ok: boolean, seed: number, hash: string, checks: [boolean, string][], failures: string[]}} Outcome how a scenario ended */
/**
 * @typedef {object} WireCluster
 * @property {string} name
 * @property {string} kind
 * @property {boolean} live
 * @property {{name: string, title: string, outcome?: Outcome | null}[]} runs
 * @property {"scheduler" | "objects"} [queue] who tells the places of waiting pods
 * @property {number} number
 * @property {number} epoch
 * @property {number} time
 * @property {string[]} phases
 * @property {string[]} places
 * @property {[string[], string[]]} fields
 * @property {string[]} texts
 * @property {WireTable} nodes
 * @property {WireTable} pods
 */

export const READY = 1;
export const CORDONED = 2;
export const GHOST = 4;
export const TERMINATING = 1;
export const DISRUPTED = 2;
export const BOUND = 0;
export const FINISHED = 7;

const RESOURCES = /** @type {const} */ (["cpu", "memory", "gpu", "pods"]);
/** @typedef {"cpu" | "memory" | "gpu" | "pods"} Resource */

/** Rows of one kind in columns. */
export class Table {
  /** @param {string[]} fields @param {WireTable} wire */
  constructor(fields, wire) {
    this.fields = fields;
    this.count = wire.count;
    /** @type {string[]} */
    this.name = wire.count ? wire.columns.name.split("\n") : [];
    /** @type {Map<number, string>} */
    this.message = new Map(
      Object.entries(wire.columns.message ?? {}).map(([slot, text]) => [Number(slot), text]),
    );
    /** @type {Record<string, Float64Array>} */
    this.columns = {};
    this.room = Math.max(64, Math.ceil(wire.count * 1.1));
    for (const field of fields) {
      if (field === "name" || field === "message") continue;
      const column = new Float64Array(this.room);
      if (wire.columns[field]) column.set(wire.columns[field]);
      this.columns[field] = column;
    }
  }

  /** @param {number} slot */
  grow(slot) {
    while (this.name.length <= slot) this.name.push("");
    this.count = this.name.length;
    if (slot < this.room) return;
    this.room = Math.max(slot + 1, this.room * 2);
    for (const field of Object.keys(this.columns)) {
      const wider = new Float64Array(this.room);
      wider.set(this.columns[field]);
      this.columns[field] = wider;
    }
  }

  /** @param {number} slot @param {Row | null} row */
  set(slot, row) {
    this.grow(slot);
    this.message.delete(slot);
    for (let i = 0; i < this.fields.length; i++) {
      const field = this.fields[i];
      if (field === "name") this.name[slot] = row ? String(row[i]) : "";
      else if (field === "message") {
        if (row && row[i]) this.message.set(slot, String(row[i]));
      } else this.columns[field][slot] = row ? Number(row[i]) : 0;
    }
  }

  /** The row of a slot, or null. @param {number} slot @returns {Row | null} */
  row(slot) {
    if (!this.name[slot]) return null;
    return this.fields.map((field) => {
      if (field === "name") return this.name[slot];
      if (field === "message") return this.message.get(slot) ?? "";
      return this.columns[field][slot];
    });
  }
}

/** @param {number} room @returns {Record<Resource, Float64Array>} */
function amounts(room) {
  return { cpu: new Float64Array(room), memory: new Float64Array(room), gpu: new Float64Array(room), pods: new Float64Array(room) };
}

/** One cluster at one moment. */
export class Cluster {
  used = amounts(0);
  first = new Int32Array(0);
  next = new Int32Array(0);
  previous = new Int32Array(0);
  /** Slots of pods that have no node and have not ended. @type {Set<number>} */
  waiting = new Set();

  /** @param {WireCluster} wire */
  constructor(wire) {
    this.about = {
      name: wire.name, kind: wire.kind, live: wire.live, runs: wire.runs, queue: wire.queue,
      wall: wire.kind === "cluster", // moments are times of day; else they count from the beginning
    };
    this.number = wire.number;
    this.time = wire.time;
    this.texts = wire.texts;
    this.phases = wire.phases;
    this.places = wire.places;
    this.nodes = new Table(wire.fields[0], wire.nodes);
    this.pods = new Table(wire.fields[1], wire.pods);
    /** Grows with every change, for whoever keeps something computed from the cluster. */
    this.version = 0;
    /** What addresses of this moment carry, if it is not the present. @type {{run?: string, t?: string}} */
    this.moment = {};
    /** Grows when nodes come, go or change. */
    this.shape = 0;
    this.recount();
  }

  /** Count everything from the rows. */
  recount() {
    this.used = amounts(this.nodes.room);
    this.first = new Int32Array(this.nodes.room);
    this.next = new Int32Array(this.pods.room);
    this.previous = new Int32Array(this.pods.room);
    this.waiting.clear();
    for (let slot = 0; slot < this.pods.count; slot++) {
      if (this.pods.name[slot]) this.enter(slot);
    }
  }

  /** Make the arrays beside the tables as long as these. */
  fit() {
    if (this.first.length < this.nodes.room) {
      for (const name of RESOURCES) this.used[name] = widened(this.used[name], this.nodes.room);
      this.first = widened(this.first, this.nodes.room);
    }
    if (this.next.length < this.pods.room) {
      this.next = widened(this.next, this.pods.room);
      this.previous = widened(this.previous, this.pods.room);
    }
  }

  /** Count a pod in. @param {number} slot */
  enter(slot) {
    const columns = this.pods.columns;
    const place = columns.place[slot];
    if (place === FINISHED) return;
    const node = columns.node[slot];
    if (!node) {
      this.waiting.add(slot);
      return;
    }
    this.sum(node - 1, slot, 1);
    const head = this.first[node - 1];
    this.next[slot] = head;
    this.previous[slot] = 0;
    if (head) this.previous[head - 1] = slot + 1;
    this.first[node - 1] = slot + 1;
  }

  /** Count a pod out. @param {number} slot */
  leave(slot) {
    this.waiting.delete(slot);
    const columns = this.pods.columns;
    const node = columns.node[slot];
    if (!node || columns.place[slot] === FINISHED) return;
    this.sum(node - 1, slot, -1);
    const next = this.next[slot];
    const previous = this.previous[slot];
    if (next) this.previous[next - 1] = previous;
    if (previous) this.next[previous - 1] = next;
    else this.first[node - 1] = next;
  }

  /** @param {number} node @param {number} pod @param {1 | -1} sign */
  sum(node, pod, sign) {
    const columns = this.pods.columns;
    this.used.cpu[node] += sign * columns.cpu[pod];
    this.used.memory[node] += sign * columns.memory[pod];
    this.used.gpu[node] += sign * columns.gpu[pod];
    this.used.pods[node] += sign;
  }

  /** Take over changes. @param {Change[]} changes */
  apply(changes) {
    for (const [table, slot, row] of changes) {
      if (table === 0) {
        this.nodes.set(slot, row);
        this.fit();
        this.shape++;
      } else {
        if (slot < this.pods.count && this.pods.name[slot]) this.leave(slot);
        this.pods.set(slot, row);
        this.fit();
        if (row) this.enter(slot);
      }
    }
    this.version++;
  }

  /** Take over a frame of the stream. @param {Frame} frame */
  follow(frame) {
    const [from, fresh] = frame.texts;
    this.texts.length = from;
    for (const text of fresh) this.texts.push(text);
    this.number = frame.number;
    this.time = frame.time;
    this.apply(frame.changes);
  }

  /** Slots of pods on a node. @param {number} node @returns {number[]} */
  podsOn(node) {
    const found = [];
    for (let at = this.first[node]; at; at = this.next[at - 1]) found.push(at - 1);
    return found;
  }

  /** @param {number} number @returns {string} */
  text(number) {
    return this.texts[number] ?? "";
  }

  /** Labels of an object. @param {Table} table @param {number} slot */
  labels(table, slot) {
    return labelMap(this.text(table.columns.labels[slot]), table.name[slot]);
  }

  /** One label of a node; undefined if it has none. @param {number} slot @param {string} key */
  label(slot, key) {
    const value = parsedLabels(this.text(this.nodes.columns.labels[slot])).get(key);
    return value === "*" ? this.nodes.name[slot] : value;
  }

  /** @param {number} slot */
  podKey(slot) {
    return `${this.text(this.pods.columns.namespace[slot])}/${this.pods.name[slot]}`;
  }

  /** The slot of a node by name, or -1. @param {string} name */
  nodeSlot(name) {
    return this.nodes.name.indexOf(name);
  }

  /** The slot of a pod by namespace/name, or -1. @param {string} key */
  podSlot(key) {
    const cut = key.indexOf("/");
    const [namespace, name] = [key.slice(0, cut), key.slice(cut + 1)];
    const names = this.pods.name;
    for (let at = names.indexOf(name); at >= 0; at = names.indexOf(name, at + 1)) {
      if (this.text(this.pods.columns.namespace[at]) === namespace) return at;
    }
    return -1;
  }

  /** What nodes have and what is requested of it, over all real nodes. */
  totals() {
    const { nodes, used } = this;
    const found = { nodes: 0, ready: 0, pods: 0, waiting: this.waiting.size };
    /** @type {Record<Resource, {used: number, all: number}>} */
    const sums = { cpu: zero(), memory: zero(), gpu: zero(), pods: zero() };
    for (let slot = 0; slot < nodes.count; slot++) {
      if (!nodes.name[slot]) continue;
      found.pods += used.pods[slot];
      if (nodes.columns.flags[slot] & GHOST) continue;
      found.nodes++;
      if (nodes.columns.flags[slot] & READY) found.ready++;
      for (const name of RESOURCES) {
        sums[name].used += used[name][slot];
        sums[name].all += nodes.columns[name][slot];
      }
    }
    return { ...found, sums };
  }
}

function zero() {
  return { used: 0, all: 0 };
}

/**
 * @template {Float64Array | Int32Array} T
 * @param {T} array @param {number} length @returns {T}
 */
function widened(array, length) {
  const wider = new /** @type {any} */ (array.constructor)(length);
  wider.set(array);
  return wider;
}

/** @type {Map<string, Map<string, string>>} */
const parsed = new Map();

/** @param {string} text @returns {Map<string, string>} */
function parsedLabels(text) {
  let found = parsed.get(text);
  if (!found) {
    found = new Map();
    for (const part of text ? text.split(",") : []) {
      const cut = part.indexOf("=");
      found.set(part.slice(0, cut), part.slice(cut + 1));
    }
    if (parsed.size > 50_000) parsed.clear();
    parsed.set(text, found);
  }
  return found;
}

/** Labels from their text; `*` is the object's own name. @param {string} text @param {string} name */
function labelMap(text, name) {
  const found = parsedLabels(text);
  if (!text.includes("=*")) return found;
  return new Map([...found].map(([key, value]) => [key, value === "*" ? name : value]));
}
