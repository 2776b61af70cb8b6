// The map as a part that any view can hold: a canvas that shows a cluster, and its keys.

import { centred, fit, kept, steer, zoom } from "./camera.js";
import { CELL, gather, hit, layout, towards } from "./layout.js";
import { GHOST } from "./cluster.js";
import { colouring } from "./colouring.js";
import { podAt } from "./card.js";
import { draw, isNear, NAMED_AT } from "./draw.js";
import { h, say } from "./dom.js";
import { podFacts } from "./panel.js";
import { cpu, memory, percent, some } from "./units.js";

/** @import { Cluster } from "./cluster.js" */
/** @import { Theme } from "./palette.js" */
/** @import { Move, Scene } from "./draw.js" */
/**
 * @typedef {object} MapOptions
 * @property {string} group label key, "" for none
 * @property {string} colour
 * @property {Theme} theme
 * @property {number} selected
 * @property {number} [pod]
 * @property {Set<number> | null} shown
 * @property {Move[]} [moves]
 * @property {Set<number>} [marked] nodes to point out
 */

const order = new Intl.Collator("en", { numeric: true });

/** Numbers in names count as numbers; names of one length need no such care. @param {string} a @param {string} b */
function byName(a, b) {
  if (a.length === b.length) return a < b ? -1 : a > b ? 1 : 0;
  return order.compare(a, b);
}

export class MapCanvas {
  /** @param {{label: string, select: (slot: number, pod?: number) => void, key?: string, noun?: string, describe?: (slot: number) => string}} hooks `key`: what a square on a card is; `noun`: what a cell is; `describe`: one in a sentence */
  constructor(hooks) {
    this.hooks = hooks;
    // Keys work on it, so a screen reader must hand them on: that is what this role says.
    this.canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { tabindex: "0", role: "application", "aria-roledescription": "map" }));
    this.tip = h("div", { class: "tip", hidden: true });
    this.live = h("div", { class: "hidden", "aria-live": "polite" });
    this.buttons = h("div", { class: "zoom", role: "group", "aria-label": "Zoom" },
      this.button("+", "Zoom in", () => this.zoomBy(1.6)), this.button("−", "Zoom out", () => this.zoomBy(1 / 1.6)),
      this.button("⤢", "Show everything", () => this.reset()));
    this.nearKey = h("div", { class: "near-key legend", hidden: true, role: "group", "aria-label": "Key to cards" },
      ...[["bar-key", "requested"], ["pod-key", hooks.key ?? "pod, coloured by owner"], ["pod-key going", "terminating"]].map(([kind, label]) =>
        h("span", { class: "mark" }, h("i", { class: kind, "aria-hidden": "true" }), label)));
    this.ground = h("div", { class: "ground" }, this.canvas, this.tip);
    this.root = h("div", { class: "map" }, this.ground, h("div", { class: "map-foot" }, this.nearKey, this.buttons), this.live);
    /** @type {Scene | null} */
    this.scene = null;
    this.key = "";
    this.drawn = 0;
    this.near = false;
    this.asked = false;
    this.touched = false;
    /** @type {MapOptions | null} */
    this.options = null;
    this.context = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d"));
    this.watch = new ResizeObserver(() => this.resized());
    this.watch.observe(this.ground);
    steer(this.canvas, {
      get: () => this.scene?.view ?? { scale: 1, x: 0, y: 0 },
      set: (view) => this.look(view),
      least: () => this.least,
      tap: (x, y, twice) => this.tap(x, y, twice),
      hover: (x, y) => this.hover(x, y),
    });
    this.canvas.addEventListener("keydown", (event) => this.keys(event));
    this.least = 1;
  }

  /** @param {string} text @param {string} label @param {() => void} work */
  button(text, label, work) {
    return h("button", { type: "button", "aria-label": label, title: label, onclick: work }, text);
  }

  /** Show a cluster. @param {Cluster} cluster @param {MapOptions} options */
  show(cluster, options) {
    this.options = options;
    const slots = [];
    const { name } = cluster.nodes;
    for (let slot = 0; slot < cluster.nodes.count; slot++) {
      if (name[slot]) slots.push(slot);
    }
    const box = this.ground.getBoundingClientRect();
    const [width, height] = [Math.max(box.width, 50), Math.max(box.height, 50)];
    const key = `${options.group}|${slots.length}|${cluster.shape}|${Math.round((20 * width) / height)}`;
    const before = this.scene;
    let plan = before?.layout;
    if (!plan || key !== this.key || before?.cluster !== cluster) {
      const names = [...slots].sort((a, b) => byName(name[a], name[b]));
      const groups = options.group ? gather(names, (slot) => cluster.label(slot, options.group)) : [{ name: "", slots: names }];
      plan = layout(groups, width - 32, height - 32);
      this.key = key;
    }
    this.least = fit(plan, width, height).scale;
    const view = before && this.touched ? before.view : fit(plan, width, height);
    this.scene = {
      cluster, layout: plan, view, width, height, theme: options.theme,
      colouring: colouring(cluster, slots, options.colour, options.theme),
      selected: options.selected, hover: before?.hover ?? -1, pod: options.pod ?? -1,
      shown: options.shown, moves: options.moves ?? [], marked: options.marked,
    };
    this.canvas.setAttribute("aria-label", `${this.hooks.label}: ${some(slots.length, this.hooks.noun ?? "node")}. Arrow keys choose one, plus and minus zoom, 0 shows everything.`);
    this.redraw();
  }

  redraw() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = false;
      if (this.scene) this.paint(this.scene);
    });
  }

  /** @param {Scene} scene */
  paint(scene) {
    const ratio = Math.min(globalThis.devicePixelRatio || 1, 2);
    const [width, height] = [Math.round(scene.width * ratio), Math.round(scene.height * ratio)];
    if (this.canvas.width !== width || this.canvas.height !== height) {
      this.canvas.width = width;
      this.canvas.height = height;
    }
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    draw(this.context, scene);
    this.near = isNear(scene) && scene.layout.where.size > 0;
    this.nearKey.hidden = !this.near;
    if (this.drawn++ === 0) performance.mark("map drawn");
  }

  resized() {
    if (!this.scene) return;
    const box = this.ground.getBoundingClientRect();
    if (box.width < 1 || box.height < 1) return;
    if (this.options) this.show(this.scene.cluster, this.options); // groups lie otherwise in a room of another shape
    this.paint(this.scene);
  }

  /** @param {import("./camera.js").View} view */
  look(view) {
    if (!this.scene) return;
    this.touched = true;
    this.scene.view = kept(view, this.scene.layout, this.scene.width, this.scene.height);
    this.tip.hidden = true;
    this.redraw();
  }

  /** @param {number} factor */
  zoomBy(factor) {
    if (!this.scene) return;
    const { view, width, height, selected, layout: plan } = this.scene;
    const at = plan.where.get(selected);
    const x = at ? (at.x + CELL.width / 2) * view.scale + view.x : width / 2;
    const y = at ? (at.y + CELL.height / 2) * view.scale + view.y : height / 2;
    this.look(zoom(view, factor, x, y, this.least));
  }

  reset() {
    if (!this.scene) return;
    this.touched = false;
    this.scene.view = fit(this.scene.layout, this.scene.width, this.scene.height);
    this.redraw();
  }

  /** Bring a node into sight, near enough to read. @param {number} slot */
  reveal(slot) {
    const at = this.scene?.layout.where.get(slot);
    if (!this.scene || !at) return;
    const { width, height, view } = this.scene;
    const [x, y] = [at.x * view.scale + view.x, at.y * view.scale + view.y];
    const inside = x >= 0 && y >= 0 && x + CELL.width * view.scale <= width && y + CELL.height * view.scale <= height;
    if (inside && CELL.width * view.scale >= NAMED_AT) return;
    const scale = Math.max(view.scale, 26);
    const { layout: plan } = this.scene;
    const above = Math.max(0, plan.head * scale - 28); // headings grow with the map, their letters do not
    this.look({
      scale,
      x: centred(width / 2 - (at.x + CELL.width / 2) * scale, plan.width * scale, width),
      y: centred(height / 2 - (at.y + CELL.height / 2) * scale + above, plan.height * scale - above, height) - above,
    });
  }

  /** @param {number} x @param {number} y */
  at(x, y) {
    if (!this.scene || x < 0) return -1;
    const { view, layout: plan } = this.scene;
    return hit(plan, (x - view.x) / view.scale, (y - view.y) / view.scale);
  }

  /** @param {number} x @param {number} y @param {boolean} twice */
  tap(x, y, twice) {
    const slot = this.at(x, y);
    if (twice && slot >= 0) this.reveal(slot);
    else this.hooks.select(slot, this.podAt(slot, x, y));
  }

  /** The pod at a point of a node's card, or -1. @param {number} slot @param {number} x @param {number} y */
  podAt(slot, x, y) {
    return this.scene && slot >= 0 && this.near ? podAt(this.scene, slot, x, y) : -1;
  }

  /** @param {number} x @param {number} y */
  hover(x, y) {
    if (!this.scene) return;
    const slot = this.at(x, y);
    const pod = this.podAt(slot, x, y);
    if (slot !== this.scene.hover) {
      this.scene.hover = slot;
      this.redraw();
    }
    const { cluster } = this.scene;
    if (slot >= 0) say(this.tip, pod < 0 ? this.describe(slot) : `${cluster.podKey(pod)} · ${podFacts(cluster, pod)}`);
    this.tip.hidden = slot < 0;
    this.tip.style.transform = `translate(${Math.min(x + 14, this.scene.width - 240)}px, ${Math.min(y + 16, this.scene.height - 60)}px)`;
  }

  /** A node in a sentence. @param {number} slot */
  describe(slot) {
    if (this.hooks.describe) return this.hooks.describe(slot);
    const { cluster } = /** @type {Scene} */ (this.scene);
    const { columns, name } = cluster.nodes;
    const used = cluster.used;
    if (columns.flags[slot] & GHOST) return `${name[slot]} · not in the cluster · ${some(used.pods[slot], "pod")}`;
    return `${name[slot]} · cpu ${cpu(used.cpu[slot])} of ${cpu(columns.cpu[slot])} (${percent(used.cpu[slot], columns.cpu[slot])})` +
      ` · memory ${memory(used.memory[slot])} of ${memory(columns.memory[slot])} (${percent(used.memory[slot], columns.memory[slot])})` +
      ` · ${some(used.pods[slot], "pod")}`;
  }

  /** @param {KeyboardEvent} event */
  keys(event) {
    if (!this.scene || event.ctrlKey || event.metaKey || event.altKey) return;
    const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const arrow = /** @type {Record<string, number[]>} */ (arrows)[event.key];
    if (arrow && event.shiftKey) {
      this.look({ ...this.scene.view, x: this.scene.view.x - arrow[0] * 80, y: this.scene.view.y - arrow[1] * 80 });
    } else if (arrow) {
      const slot = towards(this.scene.layout, this.scene.selected, arrow[0], arrow[1]);
      if (slot >= 0) {
        this.hooks.select(slot);
        say(this.live, this.describe(slot));
      }
    } else if (event.key === "+" || event.key === "=") this.zoomBy(1.4);
    else if (event.key === "-") this.zoomBy(1 / 1.4);
    else if (event.key === "0") this.reset();
    else if (event.key === "Escape") this.hooks.select(-1);
    else return;
    event.preventDefault();
  }

  close() {
    this.watch.disconnect();
  }
}
