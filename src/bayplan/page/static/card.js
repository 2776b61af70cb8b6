// A node near by: a card with its name, bars of what is requested, and its pods, with names when there is room.
//
// Where everything is on a card is computed apart from drawing, so that the pod under a pointer is found the same way.

import { CORDONED, GHOST, READY, TERMINATING } from "./cluster.js";
import { ownerName, share } from "./colouring.js";
import { CELL } from "./layout.js";
import { hash, ink, named } from "./palette.js";
import { percent, plain } from "./units.js";

/** @import { Cluster, Resource } from "./cluster.js" */
/** @import { Scene } from "./draw.js" */
/** @typedef {{x: number, y: number, wide: number, tall: number}} Box */
/** @typedef {{band: number, pad: number, size: number, thick: number, labelled: boolean, text: number, bars: number, step: number, pods: Box | null}} Plan where things are, from the card's corner */
/** @typedef {{named: boolean, columns: number, wide: number, tall: number}} Grid of pods: how many beside each other, and the room of one */

export const FONT = "system-ui, -apple-system, Segoe UI, Roboto, sans-serif";
export const CARD_GAP = 6;
const PODS_AT = 84;
const LABELS_AT = 132;
const LARGEST = 26;
const NAME = 96;
const TITLES = { cpu: "cpu", memory: "mem", gpu: "gpu", pods: "pods" };

/** @param {number} wide @param {number} tall @param {number} bars @returns {Plan} */
export function plan(wide, tall, bars) {
  const band = Math.max(4, Math.min(8, tall * 0.06));
  const pad = Math.max(4, Math.min(10, wide * 0.05));
  const text = Math.max(11, Math.min(15, wide * 0.031));
  const size = Math.max(9, Math.min(text + 2, wide * 0.09));
  const labelled = wide >= LABELS_AT;
  const thick = labelled ? text * 0.55 : Math.max(3, Math.min(6, tall * 0.04));
  const step = labelled ? text + 1 : thick + 3;
  const top = band + pad * 0.6 + size + pad * 0.55;
  const below = top + Math.max(1, bars) * step + 3;
  const room = tall - pad - below;
  const pods = wide >= PODS_AT && room >= 6 ? { x: pad, y: below, wide: wide - 2 * pad, tall: room } : null;
  return { band, pad, size, thick, labelled, text, bars: top, step, pods };
}

/** Lines with names where they fit, else the largest squares that do. @param {number} count @param {number} wide @param {number} tall @param {number} [text] size of letters @returns {Grid} */
export function podGrid(count, wide, tall, text = 11) {
  for (let columns = 1; columns <= 3; columns++) {
    const line = tall / Math.ceil(count / columns);
    if (line >= text + 2 && wide / columns >= NAME) return { named: true, columns, wide: wide / columns, tall: Math.min(line, text * 1.6) };
  }
  let columns = Math.max(1, Math.ceil(Math.sqrt((count * wide) / tall)));
  while (columns < count && (wide / columns) * Math.ceil(count / columns) > tall) columns++;
  const side = Math.min(wide / columns, LARGEST);
  return { named: false, columns: Math.max(1, Math.floor(wide / side + 1e-6)), wide: side, tall: side };
}

/** Pods of a node in the order in which they are drawn: owner by owner. @param {Cluster} cluster @param {number} slot */
function podsInOrder(cluster, slot) {
  const owners = cluster.pods.columns.owner;
  return cluster.podsOn(slot).sort((a, b) => owners[a] - owners[b] || a - b);
}

/** What a node has bars for. @param {Cluster} cluster @param {number} slot @returns {Resource[]} */
function barsOf(cluster, slot) {
  if (cluster.nodes.columns.flags[slot] & GHOST) return []; // nothing is known of what it had
  return cluster.nodes.columns.gpu[slot] ? ["cpu", "memory", "gpu"] : ["cpu", "memory"];
}

/** The pod at a point of the screen, or -1. @param {Scene} scene @param {number} slot @param {number} x @param {number} y */
export function podAt(scene, slot, x, y) {
  const { cluster, view, layout } = scene;
  const at = layout.where.get(slot);
  if (!at) return -1;
  const { pods, text } = plan(CELL.width * view.scale - CARD_GAP, CELL.height * view.scale - CARD_GAP, barsOf(cluster, slot).length);
  const slots = podsInOrder(cluster, slot);
  if (!pods || !slots.length) return -1;
  const grid = podGrid(slots.length, pods.wide, pods.tall, text);
  const column = Math.floor((x - (at.x * view.scale + view.x + pods.x)) / grid.wide);
  const row = Math.floor((y - (at.y * view.scale + view.y + pods.y)) / grid.tall);
  if (column < 0 || row < 0 || column >= grid.columns || (row + 1) * grid.tall > pods.tall + 1) return -1;
  return slots[row * grid.columns + column] ?? -1;
}

/** @param {CanvasRenderingContext2D} c @param {Scene} scene @param {number} slot @param {number} x @param {number} y @param {number} wide @param {number} tall */
export function card(c, scene, slot, x, y, wide, tall) {
  const { cluster, colouring, theme } = scene;
  const colours = ink(theme);
  const flags = cluster.nodes.columns.flags[slot];
  const broken = !(flags & READY) || flags & GHOST;
  const bars = barsOf(cluster, slot);
  const where = plan(wide, tall, bars.length);
  const radius = Math.min(6, wide / 20);
  c.fillStyle = colours.cell;
  box(c, x, y, wide, tall, radius);
  c.fill();
  c.lineWidth = 1;
  c.strokeStyle = broken ? colours.bad : colours.line;
  c.stroke();
  c.save();
  box(c, x, y, wide, tall, radius);
  c.clip();
  c.fillStyle = broken ? colours.bad : colouring.colours[colouring.of(slot)];
  c.fillRect(x, y, wide, where.band);
  if (flags & CORDONED) hatch(c, x, y, wide, tall, colours.shade);
  c.restore();
  c.font = `500 ${where.size}px ${FONT}`;
  c.textBaseline = "top";
  c.fillStyle = broken ? colours.bad : colours.text;
  c.fillText(clipped(c, cluster.nodes.name[slot], wide - 2 * where.pad), x + where.pad, y + where.band + where.pad * 0.6);
  if (!bars.length && where.labelled) absent(c, where, x + where.pad, y + where.bars);
  bars.forEach((name, i) => bar(c, scene, slot, name, where, { x: x + where.pad, y: y + where.bars + i * where.step, wide: wide - 2 * where.pad, tall: where.thick }));
  if (where.pods) drawPods(c, scene, slot, where.text, { ...where.pods, x: x + where.pods.x, y: y + where.pods.y });
}

/** A node that only pods speak of, or that a what-if takes away. @param {CanvasRenderingContext2D} c @param {Plan} where @param {number} x @param {number} y */
function absent(c, { text, step }, x, y) {
  c.font = `${text - 1}px ${FONT}`;
  c.textBaseline = "middle";
  c.fillText("not in the cluster", x, y + step / 2);
}

/** @param {CanvasRenderingContext2D} c @param {Scene} scene @param {number} slot @param {Resource} name @param {Plan} where @param {Box} at */
function bar(c, scene, slot, name, { labelled, step, text }, at) {
  const colours = ink(scene.theme);
  const part = share(scene.cluster, slot, name);
  let { x, y, wide } = at;
  if (labelled) {
    c.font = `${text - 1}px ${FONT}`;
    c.textBaseline = "middle";
    c.fillStyle = colours.dim;
    c.fillText(TITLES[name], x, y + step / 2);
    c.textAlign = "right";
    c.fillText(percent(part, 1), x + wide, y + step / 2);
    c.textAlign = "left";
    [x, y, wide] = [x + 2.8 * text, y + (step - at.tall) / 2, wide - 6 * text];
  }
  c.fillStyle = colours.empty;
  c.fillRect(x, y, wide, at.tall);
  if (!(part > 0)) return;
  c.fillStyle = part > 1.0001 ? colours.bad : colours.accent;
  c.fillRect(x, y, Math.max(1, wide * Math.min(part, 1)), at.tall);
}

/** One square a pod, in the colour of its owner, and its name where there is room. @param {CanvasRenderingContext2D} c @param {Scene} scene @param {number} slot @param {number} text @param {Box} room */
function drawPods(c, scene, slot, text, room) {
  const slots = podsInOrder(scene.cluster, slot);
  if (!slots.length) return;
  const grid = podGrid(slots.length, room.wide, room.tall, text);
  const side = grid.named ? text - 2 : Math.max(1, grid.wide - Math.max(1, grid.wide * 0.14));
  slots.forEach((pod, i) => {
    const left = room.x + (i % grid.columns) * grid.wide;
    const top = room.y + Math.floor(i / grid.columns) * grid.tall;
    if (top + grid.tall > room.y + room.tall + 1) return;
    square(c, scene, pod, left, grid.named ? top + (grid.tall - side) / 2 : top, side);
    if (!grid.named) return;
    c.font = `${pod === scene.pod ? "600 " : ""}${text}px ${FONT}`;
    c.textBaseline = "middle";
    c.fillStyle = ink(scene.theme).text;
    c.fillText(clipped(c, scene.cluster.pods.name[pod], grid.wide - side - 10), left + side + 5, top + grid.tall / 2 + 0.5);
  });
}

/** @param {CanvasRenderingContext2D} c @param {Scene} scene @param {number} pod @param {number} x @param {number} y @param {number} side */
function square(c, scene, pod, x, y, side) {
  c.fillStyle = podColour(scene, pod);
  if (scene.cluster.pods.columns.flags[pod] & TERMINATING) {
    c.lineWidth = 1;
    c.strokeStyle = c.fillStyle;
    c.strokeRect(x + 0.5, y + 0.5, side - 1, side - 1);
  } else c.fillRect(x, y, side, side);
  if (pod !== scene.pod) return;
  c.lineWidth = 2;
  c.strokeStyle = ink(scene.theme).text;
  c.strokeRect(x - 1, y - 1, side + 2, side + 2);
}

/** The colour of a pod's owner; as in the key, where nodes are coloured so. @param {Scene} scene @param {number} pod */
function podColour({ cluster, colouring, theme }, pod) {
  const owner = ownerName(cluster.text(cluster.pods.columns.owner[pod]));
  if (colouring.ofOwner) return colouring.ofOwner(owner || "no owner");
  return named(theme, hash(owner || cluster.pods.name[pod].replace(/[-.]?[a-z0-9]{5,10}$|[-.]?\d+$/, "")));
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
export function clipped(c, text, room) {
  const key = `${c.font}|${Math.round(room)}|${text}`;
  const known = cuts.get(key);
  if (known !== undefined) return known;
  const whole = plain(text);
  let found = whole;
  for (let keep = whole.length - 1; keep > 2 && c.measureText(found).width > room; keep--) {
    const head = Math.ceil(keep * 0.4);
    found = `${whole.slice(0, head)}…${whole.slice(whole.length - (keep - head))}`;
  }
  if (cuts.size > 5000) cuts.clear();
  cuts.set(key, found);
  return found;
}
