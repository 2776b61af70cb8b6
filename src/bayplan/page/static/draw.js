// Draws the map. Far away a node is a coloured cell; nearer it gets a name and bars, then its pods.
//
// Cells of one colour are one path, so 5,000 nodes are a dozen fills. Nothing is read from the page.

import { card, CARD_GAP, clipped, FONT } from "./card.js";
import { CORDONED, GHOST, READY } from "./cluster.js";
import { CELL, cellAt } from "./layout.js";
import { ink } from "./palette.js";

/** @import { Cluster } from "./cluster.js" */
/** @import { Colouring } from "./colouring.js" */
/** @import { Block, Layout } from "./layout.js" */
/** @import { View } from "./camera.js" */
/** @import { Theme } from "./palette.js" */
/** @typedef {{from: number, to: number, pods: number}} Move of some pods between slots of nodes */
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

/** Whether nodes are cards. @param {Scene} scene */
export function isNear({ view }) {
  return CELL.width * view.scale >= NAMED_AT;
}

/** @param {CanvasRenderingContext2D} c @param {Scene} scene */
export function draw(c, scene) {
  const { view, width, height, theme, layout } = scene;
  const colours = ink(theme);
  c.clearRect(0, 0, width, height);
  if (!layout.where.size) empty(c, scene);
  const wide = CELL.width * view.scale;
  const gap = wide < 4 ? 0.4 : wide < 12 ? 1 : wide < NAMED_AT ? Math.min(3, wide * 0.09) : CARD_GAP;
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
  for (const [colour, width] of /** @type {[string, number][]} */ ([[colours.cell, 3], [colours.text, 1.2]])) { // seen on every colour
    c.strokeStyle = colour;
    c.lineWidth = Math.min(width, (width * wide) / 14);
    c.stroke(cordoned);
  }
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
  c.globalAlpha = Math.min(0.8, Math.max(0.12, 60 / scene.moves.length)); // a thousand must not hide the map
  for (const move of scene.moves) {
    const from = middle(move.from);
    const to = middle(move.to);
    if (!from || !to) continue;
    c.strokeStyle = c.fillStyle = ink(scene.theme).warn;
    c.lineWidth = many ? 1 : Math.min(4, 1.3 + 0.3 * move.pods);
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
    if (!many && move.pods > 1) number(c, scene, move.pods, (from.x + to.x) / 4 + bend.x / 2, (from.y + to.y) / 4 + bend.y / 2);
  }
  c.globalAlpha = 1;
}

/** How many pods an arrow stands for, on its middle. @param {CanvasRenderingContext2D} c @param {Scene} scene @param {number} pods @param {number} x @param {number} y */
function number(c, scene, pods, x, y) {
  const text = String(pods);
  c.font = `600 11px ${FONT}`;
  const wide = c.measureText(text).width + 8;
  c.beginPath();
  c.roundRect(x - wide / 2, y - 8, wide, 16, 8);
  c.fill();
  c.fillStyle = ink(scene.theme).cell;
  c.textAlign = "center";
  c.textBaseline = "middle";
  c.fillText(text, x, y + 0.5);
  c.textAlign = "left";
}
