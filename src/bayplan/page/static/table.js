// A table of any length: only the rows in sight exist. Sorting by any column, walking by keys.

import { h, keep, say } from "./dom.js";

/**
 * @template T
 * @typedef {object} Column
 * @property {string} title
 * @property {number} width weight of the column
 * @property {(item: T) => string | Node} cell
 * @property {(item: T) => string | number} [key] to sort by
 * @property {boolean} [number] right-aligned
 * @property {boolean} [narrow] also shown on narrow screens
 * @property {boolean} [below] there on a line of its own, below the others
 */

/** Height of a row by its lines. */
const HEIGHTS = [0, 28, 42, 58];
/** A letter's width, about: to know whether a text needs a second line. */
const LETTER = 6.3;
const MOST_MEASURED = 2000;
const NARROW = "(max-width: 860px)";
const HEAD = 30;
const BEYOND = 8;

/** @template T */
export class VirtualTable {
  /**
   * @param {string} label
   * @param {Column<T>[]} columns
   * @param {{open?: (item: T) => void, sort?: number, down?: boolean, empty?: string, grow?: string}} [options] `grow`: as tall as its rows, up to this
   */
  constructor(label, columns, options = {}) {
    this.columns = columns;
    this.options = options;
    /** @type {T[]} */
    this.items = [];
    this.sort = options.sort ?? -1;
    this.down = options.down ?? false;
    this.focus = -1;
    this.head = h("div", { class: "vt-row vt-head", role: "row", "aria-rowindex": "1" });
    this.body = h("div", { class: "vt-body", role: "none" });
    this.scroller = h("div", { class: "vt-scroll", tabindex: "0", role: "rowgroup", "aria-label": `${label}: arrow keys move${options.open ? ", Enter opens" : ""}` }, this.body);
    this.note = h("p", { class: "vt-note dim" });
    this.told = h("div", { class: "hidden", "aria-live": "polite" });
    this.root = h("div", { class: "vt", role: "table", "aria-label": label },
      h("div", { role: "rowgroup" }, this.head), this.scroller, this.note, this.told);
    this.body.addEventListener("click", (event) => this.clicked(event));
    this.scroller.addEventListener("scroll", () => this.draw());
    this.scroller.addEventListener("keydown", (event) => this.key(event));
    this.watch = new ResizeObserver(() => requestAnimationFrame(() => this.measured())); // it may change the size that was told
    this.watch.observe(this.scroller);
    this.tall = HEIGHTS[1];
    this.longest = 0;
    this.narrow = matchMedia(NARROW);
    this.turn = () => this.show(this.items);
    this.narrow.addEventListener("change", this.turn);
    this.heading();
  }

  /** Give rows as many lines as the long text of one needs, two at most: a reason that is cut helps nobody. */
  measured() {
    const below = this.columns.find((column) => column.below);
    const wide = this.scroller.clientWidth;
    const { matches } = this.narrow;
    const all = this.columns.reduce((sum, { width }) => sum + width, 0);
    const room = matches ? wide - 12 : ((wide - 12 * this.columns.length) * (below?.width ?? 0)) / all;
    const lines = below && wide && this.longest * LETTER > room ? 2 : 1;
    this.tall = HEIGHTS[below && matches ? 1 + lines : lines];
    this.root.classList.toggle("tall", Boolean(below && matches));
    this.root.classList.toggle("two-lines", lines > 1);
    this.root.style.setProperty("--row", `${this.tall}px`);
    this.body.style.height = `${this.items.length * this.tall}px`;
    if (this.options.grow) this.root.style.height = `min(${HEAD + Math.max(this.items.length, 1) * this.tall + 2}px, ${this.options.grow})`;
    this.draw();
  }

  heading() {
    this.head.replaceChildren(...this.columns.map((column, i) => {
      const sorted = this.sort === i;
      const arrow = sorted ? (this.down ? " ↓" : " ↑") : "";
      const cell = h("div", {
        class: this.cellClass(column), role: "columnheader",
        "aria-sort": sorted ? (this.down ? "descending" : "ascending") : "none",
      }, column.key ? h("button", { type: "button", class: "vt-sort", title: column.title, onclick: () => this.sortBy(i) }, column.title + arrow) : column.title);
      cell.style.flex = `${column.width} 1 0`;
      return cell;
    }));
  }

  /** @param {Column<T>} column */
  cellClass(column) {
    return `vt-cell${column.number ? " number" : ""}${column.narrow ? "" : " wide-only"}${column.below ? " below" : ""}`;
  }

  /** @param {number} i */
  sortBy(i) {
    this.down = this.sort === i ? !this.down : Boolean(this.columns[i].number);
    this.sort = i;
    this.heading();
    this.show(this.items);
  }

  /** Show these items. @param {T[]} items */
  show(items) {
    const key = this.columns[this.sort]?.key;
    if (key) {
      const sign = this.down ? -1 : 1;
      const order = new Intl.Collator("en", { numeric: true }).compare;
      const keyed = items.map((item) => /** @type {[string | number, T]} */ ([key(item), item]));
      keyed.sort(([a], [b]) => sign * (typeof a === "number" && typeof b === "number" ? a - b : order(String(a), String(b))));
      items = keyed.map(([, item]) => item);
    }
    this.items = items;
    this.root.setAttribute("aria-rowcount", String(items.length + 1));
    say(this.note, items.length ? "" : (this.options.empty ?? "Nothing here."));
    this.focus = Math.min(this.focus, items.length - 1);
    const text = this.columns.find((column) => column.below)?.key;
    this.longest = text ? items.slice(0, MOST_MEASURED).reduce((most, item) => Math.max(most, String(text(item)).length), 0) : 0;
    this.measured();
  }

  draw() {
    const top = this.scroller.scrollTop;
    const from = Math.max(0, Math.floor(top / this.tall) - BEYOND);
    // A scroller that a layout lets grow to its content must not bring every row.
    const seen = Math.min(this.scroller.clientHeight, innerHeight);
    const to = Math.min(this.items.length, Math.ceil((top + seen) / this.tall) + BEYOND);
    const rows = [];
    for (let i = from; i < to; i++) rows.push(this.row(i));
    keep(this.body, ...rows);
  }

  /** @param {Event} event */
  clicked(event) {
    const target = /** @type {Element} */ (event.target);
    const row = target.closest(".vt-row");
    const item = row && this.items[Number(row.getAttribute("aria-rowindex")) - 2];
    if (item !== null && item !== undefined && !target.closest("a")) this.options.open?.(item);
  }

  /** @param {number} i */
  row(i) {
    const item = this.items[i];
    const row = h("div", {
      class: `vt-row${i === this.focus ? " focus" : ""}${this.options.open ? " opens" : ""}`, role: "row", "aria-rowindex": String(i + 2),
    }, this.columns.map((column) => {
      const cell = h("div", { class: this.cellClass(column), role: "cell" }, column.cell(item));
      cell.style.flex = `${column.width} 1 0`;
      cell.title = cell.textContent ?? "";
      return cell;
    }));
    row.style.transform = `translateY(${i * this.tall}px)`;
    return row;
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / this.tall) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key === "Enter" && this.focus >= 0) {
      this.options.open?.(this.items[this.focus]);
      return;
    }
    const step = /** @type {Record<string, number>} */ (steps)[event.key];
    if (step === undefined || !this.items.length) return;
    event.preventDefault();
    this.focus = Math.max(0, Math.min(this.items.length - 1, this.focus + step));
    const top = this.focus * this.tall;
    const view = this.scroller;
    if (top < view.scrollTop) view.scrollTop = top;
    if (top + this.tall > view.scrollTop + view.clientHeight) view.scrollTop = top + this.tall - view.clientHeight;
    this.draw();
    const row = this.body.querySelector(".vt-row.focus");
    say(this.told, [...(row?.children ?? [])].map((cell, i) => `${this.columns[i].title} ${cell.textContent}`).join(", "));
  }

  close() {
    this.narrow.removeEventListener("change", this.turn);
    this.watch.disconnect();
  }
}
