// Where everything is on the map: groups as blocks, nodes as cells in them. Pure arithmetic.
//
// One cell is CELL.width × CELL.height units. Blocks flow in rows; of many ways to do that the one
// is taken that fills the window with the largest cells. Headings and gaps are meant in pixels, so
// they are computed again for the scale that was found.

import { largest } from "./camera.js";

/** @typedef {{name: string, slots: number[]}} Group */
/** @typedef {{name: string, x: number, y: number, width: number, height: number, head: number, columns: number, slots: number[]}} Block */
/** @typedef {{blocks: Block[], width: number, height: number, head: number, where: Map<number, {x: number, y: number}>}} Layout */

export const CELL = { width: 5, height: 4 };
const GAP_PIXELS = 16;
const HEAD_PIXELS = 20;
const READABLE = 60;
const ASPECTS = [0.15, 0.25, 0.4, 0.6, 0.8, 1, 1.4, 2, 3, 5, 9, 16];

/**
 * Lay groups out for a window of the given size.
 * @param {Group[]} groups
 * @param {number} width @param {number} height in pixels
 * @returns {Layout}
 */
export function layout(groups, width, height) {
  const most = Math.max(1, ...groups.map((group) => group.slots.length));
  const side = Math.sqrt(most) * CELL.height;
  const titled = groups.some((group) => group.name);
  let scale = largest(width);
  let best = flow(groups, 1, 1, 0, 0);
  for (let turn = 0; turn < 3; turn++) {
    const readable = side * scale > READABLE;
    const head = titled ? Math.min(HEAD_PIXELS / scale, side * (readable ? 0.4 : 0.1)) : 0;
    const gap = Math.min(GAP_PIXELS / scale, side * (readable ? 0.5 : 0.16));
    best = tightest(groups, width / height, head, gap);
    scale = Math.min(largest(width), width / best.width, height / best.height);
  }
  for (const block of best.blocks) {
    block.slots.forEach((slot, i) => best.where.set(slot, cellAt(block, i)));
  }
  return best;
}

/** @param {Group[]} groups @param {number} aspect @param {number} head @param {number} gap */
function tightest(groups, aspect, head, gap) {
  let best = flow(groups, 1, 1, head, gap);
  let most = 0;
  for (const shape of ASPECTS) {
    const sizes = groups.map((group) => size(group, shape, head));
    const widest = Math.max(1, ...sizes.map((item) => item.width));
    const total = sizes.reduce((sum, item) => sum + item.width + gap, 0);
    for (let part = 1; part <= 24; part++) {
      const room = Math.max(widest, (total - gap) / part + (part > 1 ? widest / 2 : 0));
      const found = flow(groups, shape, room, head, gap);
      const scale = Math.min(aspect / found.width, 1 / found.height);
      if (scale > most * 1.0001) {
        most = scale;
        best = found;
      }
    }
  }
  return best;
}

/** @param {Group} group @param {number} shape @param {number} head */
function size(group, shape, head) {
  const wanted = Math.round(Math.sqrt((group.slots.length * shape * CELL.height) / CELL.width));
  const columns = Math.max(1, Math.min(wanted, group.slots.length));
  const rows = Math.ceil(group.slots.length / columns);
  return { columns, width: columns * CELL.width, height: head + rows * CELL.height };
}

/** @param {Group[]} groups @param {number} shape @param {number} room @param {number} head @param {number} gap @returns {Layout} */
function flow(groups, shape, room, head, gap) {
  /** @type {Block[]} */
  const blocks = [];
  let [x, y, tall, right] = [0, 0, 0, 0];
  for (const group of groups) {
    const { columns, width, height } = size(group, shape, head);
    if (x > 0 && x + width > room + 0.01) {
      x = 0;
      y += tall + gap;
      tall = 0;
    }
    blocks.push({ name: group.name, x, y, width, height, head, columns, slots: group.slots });
    x += width + gap;
    right = Math.max(right, x - gap);
    tall = Math.max(tall, height);
  }
  return { blocks, width: Math.max(right, 1), height: Math.max(y + tall, 1), head, where: new Map() };
}

/** Where the cell of a block's node is. @param {Block} block @param {number} i */
export function cellAt(block, i) {
  return {
    x: block.x + (i % block.columns) * CELL.width,
    y: block.y + block.head + Math.floor(i / block.columns) * CELL.height,
  };
}

/**
 * The node at a point, or -1.
 * @param {Layout} found @param {number} x @param {number} y
 */
export function hit(found, x, y) {
  for (const block of found.blocks) {
    if (x < block.x || x >= block.x + block.width || y < block.y + block.head || y >= block.y + block.height) continue;
    const column = Math.floor((x - block.x) / CELL.width);
    const row = Math.floor((y - block.y - block.head) / CELL.height);
    return block.slots[row * block.columns + column] ?? -1;
  }
  return -1;
}

/**
 * The nearest cell in a direction, for arrow keys.
 * @param {Layout} found @param {number} slot @param {number} dx @param {number} dy
 */
export function towards(found, slot, dx, dy) {
  const here = found.where.get(slot);
  if (!here) return found.blocks[0]?.slots[0] ?? -1;
  let best = slot;
  let least = Infinity;
  for (const [other, at] of found.where) {
    const along = (at.x - here.x) * dx + (at.y - here.y) * dy;
    if (other === slot || along <= 0.01) continue;
    const aside = Math.abs((at.x - here.x) * dy) + Math.abs((at.y - here.y) * dx);
    const cost = along + aside * 3;
    if (cost < least) {
      least = cost;
      best = other;
    }
  }
  return best;
}

/**
 * Gather nodes by the value of a label; "" is one group of all.
 * @param {number[]} slots
 * @param {(slot: number) => string | undefined} value
 * @returns {Group[]}
 */
export function gather(slots, value) {
  /** @type {Map<string, number[]>} */
  const groups = new Map();
  for (const slot of slots) {
    const name = value(slot) ?? "(none)";
    const known = groups.get(name);
    if (known) known.push(slot);
    else groups.set(name, [slot]);
  }
  const order = new Intl.Collator("en", { numeric: true });
  return [...groups]
    .sort(([a], [b]) => order.compare(a, b))
    .map(([name, members]) => ({ name, slots: members }));
}
