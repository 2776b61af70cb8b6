// Draws the map. Far away a node is a coloured cell; nearer it gets a name and bars, then its pods.
//
// Cells of one colour are one path, so 5,000 nodes are a dozen fills. Nothing is read from the page.

import { CORDONED, GHOST, READY, TERMINATING } from "./cluster.js";
import { ownerName, share } from "./colouring.js";
import { CELL, cellAt } from "./layout.js";
import { hash, ink, named } from "./palette.js";

/** @import { Cluster } from "./cluster.js" */
/** @import { Colouring } from "./colouring.js" */
/** @import { Block, Layout } from "./layout.js" */
/** @import { View } from "./camera.js" */
/** @import { Theme } from "./palette.js" */
/** @typedef {{from: number, to: number, colour?: string}} Move between slots of nodes */
/**
 * @typedef {object} Scene
 * @property {Cluster} cluster
 * @property {Layout} layout
 * @property {View} view
 * @property {number} width
 * @property {number} height
 * @property {Colouring} colouring
 * @property {Theme} theme
 * @property {number} selected slot or -1
 * @property {number} hover slot or -1
 * @property {number} pod slot of a pod to point at, or -1
 * @property {Set<number> | null} shown nodes that match; null for all
 * @property {Move[]} moves
 * @property {Set<number>} [marked] nodes to point out
 */

export const NAMED_AT = 64;
const PODS_AT = 84;
const FONT = "system-ui, -apple-system, Segoe UI, Roboto, sans-serif";

/** @param {CanvasRenderingContext2D} c @param {Scene} scene */
export function draw(c, scene) {
  const { view, width, height, theme, layout } = scene;
  const colours = ink(theme);
  c.clearRect(0, 0, width, height);
  if (!layout.where.size) empty(c, scene);
  const wide = CELL.width * view.scale;
  const gap = wide < 4 ? 0.4 : wide < 12 ? 1 : wide < NAMED_AT ? Math.min(3, wide * 0.09) : 6;
  for (const block of layout.blocks) {
    const x = block.x * view.scale + view.x;
    const y = block.y * view.scale + view.y;
    if (x > width || y > height || x + block.width * view.scale < 0 || y + block.height * view.scale < 0) continue;
    heading(c, scene, block, x, y);
  }
  if (wide < NAMED_AT) cells(c, scene, gap);
  else cards(c, scene, gap);
  for (const slot of scene.marked ?? []) outline(c, scene, slot, colours.warn, gap);
  for (const [slot, colour] of [[scene.hover, colours.dim], [scene.selected, colours.accent]]) {
    outline(c, scene, Number(slot), String(colour), gap);
  }
  moves(c, scene);
}

/** @param {CanvasRenderingContext2D} c @param {Scene} scene */
function empty(c, scene) {
  c.font = `13px ${FONT}`;
  c.fillStyle = ink(scene.theme).dim;
  c.textAlign = "center";
  c.fillText("no nodes at this moment", scene.width / 2, scene.height / 2);
  c.textAlign = "left";
}

/** Rows of a block that are in sight, as indexes of its cells. @param {Scene} scene @param {Block} block @returns {[number, number, number, number]} */
function inSight(scene, block) {
  const { view, width, height } = scene;
  const left = (-view.x / view.scale - block.x) / CELL.width;
  const right = ((width - view.x) / view.scale - block.x) / CELL.width;
  const top = (-view.y / view.scale - cellAt(block, 0).y) / CELL.height;
  const bottom = ((height - view.y) / view.scale - cellAt(block, 0).y) / CELL.height;
  const rows = Math.ceil(block.slots.length / block.columns);
  return [
    Math.max(0, Math.floor(left)), Math.min(block.columns, Math.ceil(right)),
    Math.max(0, Math.floor(top)), Math.min(rows, Math.ceil(bottom)),
  ];
}

/** Call for each cell in sight. @param {Scene} scene @param {(slot: number, x: number, y: number) => void} work */
function each(scene, work) {
  const { view } = scene;
  const wide = CELL.width * view.scale;
  const tall = CELL.height * view.scale;
  for (const block of scene.layout.blocks) {
    const [left, right, top, bottom] = inSight(scene, block);
    const origin = cellAt(block, 0);
    const x0 = origin.x * view.scale + view.x;
    const y0 = origin.y * view.scale + view.y;
    for (let row = top; row < bottom; row++) {
      for (let column = left; column < right; column++) {
        const slot = block.slots[row * block.columns + column];
        if (slot !== undefined) work(slot, x0 + column * wide, y0 + row * tall);
      }
    }
  }
}

/** @param {CanvasRenderingContext2D} c @param {Scene} scene @param {Block} block @param {number} x @param {number} y */
function heading(c, scene, block, x, y) {
  const tall = block.head * scene.view.scale;
  const size = Math.min(13, tall * 0.66);
  if (!block.name || size < 7) return;
  const room = block.width * scene.view.scale;
  c.font = `600 ${size}px ${FONT}`;
  c.fillStyle = ink(scene.theme).dim;
  c.textBaseline = "bottom";
  const base = y + tall - Math.min(4, tall * 0.15);
  const name = clipped(c, block.name, room);
  c.fillText(name, x, base);
  const used = c.measureText(name).width;
  c.font = `${size * 0.9}px ${FONT}`;
  const note = `${block.slots.length}`;
  if (used + c.measureText(note).width + 8 < room) c.fillText(note, x + used + 7, base);
}

/** Far: coloured cells. @param {CanvasRenderingContext2D} c @param {Scene} scene @param {number} gap */
function cells(c, scene, gap) {
  const { colouring, shown, view } = scene;
  const flags = scene.cluster.nodes.columns.flags;
  const wide = CELL.width * view.scale - gap;
  const tall = CELL.height * view.scale - gap;
  const paths = colouring.colours.map(() => new Path2D());
  const pale = colouring.colours.map(() => new Path2D());
  const bad = new Path2D();
  const cordoned = new Path2D();
  const marks = wide > 5;
  each(scene, (slot, x, y) => {
    const hidden = shown !== null && !shown.has(slot);
    (hidden ? pale : paths)[colouring.of(slot)].rect(x, y, wide, tall);
    if (hidden) return;
    const flag = flags[slot];
    if (!(flag & READY) || flag & GHOST) bad.rect(x, y, wide, tall);
    else if (flag & CORDONED && marks) stripe(cordoned, x, y, wide, tall);
  });
  const colours = ink(scene.theme);
  c.globalAlpha = 0.16;
  pale.forEach((path, i) => painted(c, path, colouring.colours[i]));
  c.globalAlpha = 1;
  paths.forEach((path, i) => painted(c, path, colouring.colours[i]));
  c.strokeStyle = colours.dim;
  c.lineWidth = Math.min(1.5, wide / 10);
  c.stroke(cordoned);
  c.globalAlpha = marks ? 0.35 : 1;
  painted(c, bad, colours.bad);
  c.globalAlpha = 1;
  c.strokeStyle = colours.bad;
  c.lineWidth = marks ? 1.5 : 0.5;
  c.stroke(bad);
}

/** @param {CanvasRenderingContext2D} c @param {Path2D} path @param {string} colour */
function painted(c, path, colour) {
  c.fillStyle = colour;
  c.fill(path);
}

/** @param {Path2D} path @param {number} x @param {number} y @param {number} wide @param {number} tall */
function stripe(path, x, y, wide, tall) {
  path.moveTo(x, y + tall);
  path.lineTo(x + wide, y);
}

/** Near: cards with a name, bars and, nearer still, pods. @param {CanvasRenderingContext2D} c @param {Scene} scene @param {number} gap */
function cards(c, scene, gap) {
  const wide = CELL.width * scene.view.scale - gap;
  const tall = CELL.height * scene.view.scale - gap;
  each(scene, (slot, x, y) => {
    c.globalAlpha = scene.shown !== null && !scene.shown.has(slot) ? 0.22 : 1;
    card(c, scene, slot, x, y, wide, tall);
  });
  c.globalAlpha = 1;
}

/** @param {CanvasRenderingContext2D} c @param {Scene} scene @param {number} slot @param {number} x @param {number} y @param {number} wide @param {number} tall */
function card(c, scene, slot, x, y, wide, tall) {
  const { cluster, colouring, theme } = scene;
  const colours = ink(theme);
  const flags = cluster.nodes.columns.flags[slot];
  const broken = !(flags & READY) || flags & GHOST;
  const radius = Math.min(6, wide / 20);
  c.fillStyle = colours.cell;
  box(c, x, y, wide, tall, radius);
  c.fill();
  c.lineWidth = 1;
  c.strokeStyle = broken ? colours.bad : colours.line;
  c.stroke();
  const band = Math.max(4, Math.min(8, tall * 0.06));
  c.save();
  box(c, x, y, wide, tall, radius);
  c.clip();
  c.fillStyle = broken ? colours.bad : colouring.colours[colouring.of(slot)];
  c.fillRect(x, y, wide, band);
  if (flags & CORDONED) hatch(c, x, y, wide, tall, colours.shade);
  c.restore();
  const pad = Math.max(4, Math.min(10, wide * 0.05));
  const size = Math.max(9, Math.min(13, wide * 0.09));
  let top = y + band + pad * 0.6;
  c.font = `500 ${size}px ${FONT}`;
  c.textBaseline = "top";
  c.fillStyle = broken ? colours.bad : colours.text;
  c.fillText(clipped(c, cluster.nodes.name[slot], wide - 2 * pad), x + pad, top);
  top += size + pad * 0.55;
  const thick = Math.max(3, Math.min(6, tall * 0.04));
  for (const name of /** @type {const} */ (["cpu", "memory"])) {
    bar(c, scene, x + pad, top, wide - 2 * pad, thick, share(cluster, slot, name));
    top += thick + 3;
  }
  if (cluster.nodes.columns.gpu[slot]) {
    bar(c, scene, x + pad, top, wide - 2 * pad, thick, share(cluster, slot, "gpu"));
    top += thick + 3;
  }
  if (wide >= PODS_AT) pods(c, scene, slot, x + pad, top + 3, wide - 2 * pad, y + tall - pad - top - 3);
}

/** @param {CanvasRenderingContext2D} c @param {Scene} scene @param {number} x @param {number} y @param {number} wide @param {number} thick @param {number} part */
function bar(c, scene, x, y, wide, thick, part) {
  const colours = ink(scene.theme);
  c.fillStyle = colours.empty;
  c.fillRect(x, y, wide, thick);
  if (!(part > 0)) return;
  c.fillStyle = part > 1.0001 ? colours.bad : colours.accent;
  c.fillRect(x, y, Math.max(1, wide * Math.min(part, 1)), thick);
}

/** Squares, one a pod, in the colour of its owner. @param {CanvasRenderingContext2D} c @param {Scene} scene @param {number} slot @param {number} x @param {number} y @param {number} wide @param {number} tall */
function pods(c, scene, slot, x, y, wide, tall) {
  const { cluster, theme } = scene;
  const slots = cluster.podsOn(slot);
  if (!slots.length || tall < 6) return;
  const { side, columns } = podGrid(slots.length, wide, tall);
  const owners = cluster.pods.columns.owner;
  slots.sort((a, b) => owners[a] - owners[b] || a - b);
  slots.forEach((pod, i) => {
    const left = x + (i % columns) * side;
    const top = y + Math.floor(i / columns) * side;
    if (top + side > y + tall + 1) return;
    c.fillStyle = podColour(scene, pod);
    const inner = Math.max(1, side - Math.max(1, side * 0.14));
    if (cluster.pods.columns.flags[pod] & TERMINATING) {
      c.strokeStyle = c.fillStyle;
      c.strokeRect(left + 0.5, top + 0.5, inner - 1, inner - 1);
    } else c.fillRect(left, top, inner, inner);
    if (pod === scene.pod) {
      c.lineWidth = 2;
      c.strokeStyle = ink(theme).text;
      c.strokeRect(left - 1, top - 1, inner + 2, inner + 2);
    }
  });
}

/** The colour of a pod's owner; as in the key, where nodes are coloured so. @param {Scene} scene @param {number} pod */
function podColour({ cluster, colouring, theme }, pod) {
  const owner = ownerName(cluster.text(cluster.pods.columns.owner[pod]));
  if (colouring.ofOwner) return colouring.ofOwner(owner || "no owner");
  return named(theme, hash(owner || cluster.pods.name[pod].replace(/[-.]?[a-z0-9]{5,10}$|[-.]?\d+$/, "")));
}

/** The largest squares that fit. @param {number} count @param {number} wide @param {number} tall */
export function podGrid(count, wide, tall) {
  let columns = Math.max(1, Math.ceil(Math.sqrt((count * wide) / tall)));
  while (columns < count && (wide / columns) * Math.ceil(count / columns) > tall) columns++;
  return { side: Math.min(wide / columns, 26), columns: Math.max(1, Math.floor(wide / Math.min(wide / columns, 26) + 1e-6)) };
}

/** @param {CanvasRenderingContext2D} c @param {Scene} scene @param {number} slot @param {string} colour @param {number} gap */
function outline(c, scene, slot, colour, gap) {
  const at = scene.layout.where.get(slot);
  if (!at) return;
  const { view } = scene;
  const grow = CELL.width * view.scale < 12 ? 2 : 1;
  c.strokeStyle = colour;
  c.lineWidth = 2;
  c.strokeRect(
    at.x * view.scale + view.x - grow, at.y * view.scale + view.y - grow,
    CELL.width * view.scale - gap + 2 * grow, CELL.height * view.scale - gap + 2 * grow,
  );
}

/** Arrows from cell to cell. @param {CanvasRenderingContext2D} c @param {Scene} scene */
function moves(c, scene) {
  const { view, layout } = scene;
  const middle = (/** @type {number} */ slot) => {
    const at = layout.where.get(slot);
    return at && { x: (at.x + CELL.width / 2) * view.scale + view.x, y: (at.y + CELL.height / 2) * view.scale + view.y };
  };
  const many = scene.moves.length > 60;
  const head = many ? 5 : 7;
  c.lineWidth = many ? 1 : 1.6;
  c.globalAlpha = Math.min(0.8, Math.max(0.12, 60 / scene.moves.length)); // a thousand must not hide the map
  for (const move of scene.moves) {
    const from = middle(move.from);
    const to = middle(move.to);
    if (!from || !to) continue;
    c.strokeStyle = c.fillStyle = move.colour ?? ink(scene.theme).warn;
    const bend = { x: (from.x + to.x) / 2 + (to.y - from.y) * 0.14, y: (from.y + to.y) / 2 - (to.x - from.x) * 0.14 };
    c.beginPath();
    c.moveTo(from.x, from.y);
    c.quadraticCurveTo(bend.x, bend.y, to.x, to.y);
    c.stroke();
    const angle = Math.atan2(to.y - bend.y, to.x - bend.x);
    c.beginPath();
    c.moveTo(to.x, to.y);
    c.lineTo(to.x - head * Math.cos(angle - 0.45), to.y - head * Math.sin(angle - 0.45));
    c.lineTo(to.x - head * Math.cos(angle + 0.45), to.y - head * Math.sin(angle + 0.45));
    c.fill();
  }
  c.globalAlpha = 1;
}

/** @param {CanvasRenderingContext2D} c @param {number} x @param {number} y @param {number} wide @param {number} tall @param {number} radius */
function box(c, x, y, wide, tall, radius) {
  c.beginPath();
  c.roundRect(x, y, wide, tall, radius);
}

/** @param {CanvasRenderingContext2D} c @param {number} x @param {number} y @param {number} wide @param {number} tall @param {string} colour */
function hatch(c, x, y, wide, tall, colour) {
  c.strokeStyle = colour;
  c.lineWidth = 3;
  c.beginPath();
  for (let at = -tall; at < wide; at += 9) {
    c.moveTo(x + at, y + tall);
    c.lineTo(x + at + tall, y);
  }
  c.stroke();
}

/** @type {Map<string, string>} */
const cuts = new Map();

/** A text cut in the middle to fit: ends of names tell more. @param {CanvasRenderingContext2D} c @param {string} text @param {number} room */
function clipped(c, text, room) {
  const key = `${c.font}|${Math.round(room)}|${text}`;
  const known = cuts.get(key);
  if (known !== undefined) return known;
  let found = text;
  for (let keep = text.length - 1; keep > 2 && c.measureText(found).width > room; keep--) {
    const head = Math.ceil(keep * 0.4);
    found = `${text.slice(0, head)}…${text.slice(text.length - (keep - head))}`;
  }
  if (cuts.size > 5000) cuts.clear();
  cuts.set(key, found);
  return found;
}
