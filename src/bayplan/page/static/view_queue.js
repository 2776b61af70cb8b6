// Queue: how many pods wait where, how fast they come and go, and every one of them by cause.

import { h, notice, put, say } from "./dom.js";
import { podLink } from "./panel.js";
import { causes, causeOf, MEANING, ORDER, Rates, sizes } from "./queueing.js";
import { formatRoute } from "./router.js";
import { VirtualTable } from "./table.js";
import { age, count, cpu, memory } from "./units.js";

/** @import { Cluster } from "./cluster.js" */
/** @import { State } from "./store.js" */
/** @typedef {{cluster: Cluster, slot: number}} Item */

export class QueueView {
  constructor() {
    /** @type {Record<string, string>} */
    this.query = {};
    this.rates = new Rates();
    this.tiles = h("div", { class: "tiles", role: "group", "aria-label": "Places in the queue" });
    /** @type {Map<string, {number: HTMLElement, tile: HTMLElement}>} */
    this.numbers = new Map();
    for (const name of ORDER) {
      const number = h("b", null, "0");
      const tile = h("a", { class: `tile ${name}`, href: "#/queue" }, number, h("span", null, name), h("small", { class: "dim" }, MEANING[/** @type {keyof typeof MEANING} */ (name)]));
      this.numbers.set(name, { number, tile });
      this.tiles.append(tile);
    }
    this.rate = h("p", { class: "dim rates" });
    this.list = h("ul", { class: "causes picks" });
    /** @type {VirtualTable<Item>} */
    this.table = new VirtualTable("Pods in the queue", [
      { title: "Pod", width: 4, narrow: true, key: (i) => i.cluster.podKey(i.slot), cell: (i) => podLink(i.cluster, i.slot) },
      { title: "Place", width: 1.6, key: (i) => i.cluster.pods.columns.place[i.slot], cell: (i) => i.cluster.places[i.cluster.pods.columns.place[i.slot]] },
      { title: "Waits", width: 2, number: true, narrow: true, key: (i) => waits(i), cell: (i) => age(waits(i)) },
      { title: "Priority", width: 1.2, number: true, key: (i) => i.cluster.pods.columns.priority[i.slot], cell: (i) => String(i.cluster.pods.columns.priority[i.slot]) },
      { title: "CPU", width: 1, number: true, key: (i) => i.cluster.pods.columns.cpu[i.slot], cell: (i) => cpu(i.cluster.pods.columns.cpu[i.slot]) },
      { title: "Memory", width: 1.2, number: true, key: (i) => i.cluster.pods.columns.memory[i.slot], cell: (i) => memory(i.cluster.pods.columns.memory[i.slot]) },
      { title: "Cause", width: 6, narrow: true, key: (i) => why(i), cell: (i) => why(i) },
    ], { sort: 2, down: true, open: (i) => { location.hash = formatRoute("pod", i.cluster.podKey(i.slot)); }, empty: "No pod waits here." });
    this.rest = h("div", { class: "queue-rest" }, h("div", { class: "queue-causes" }, h("h2", null, "By cause"), this.list), this.table.root);
    this.main = h("div", { class: "queue-main" }, this.tiles, this.rate, this.rest);
    this.root = h("div", { class: "view scroll" }, this.main);
    this.seen = -1;
  }

  /** @param {State} state */
  update(state) {
    const cluster = state.cluster;
    if (!cluster) return;
    this.query = state.route.query;
    if (this.seen !== state.frame) {
      this.seen = state.frame;
      this.rates.see(cluster);
    }
    const found = sizes(cluster);
    for (const [name, { number, tile }] of this.numbers) {
      say(number, count(found[name]));
      const chosen = this.query.place === name;
      tile.classList.toggle("chosen", chosen);
      tile.classList.toggle("none", !found[name]);
      tile.setAttribute("href", formatRoute("queue", "", { place: chosen ? undefined : name }));
      tile.setAttribute("aria-current", chosen ? "true" : "false");
    }
    const rates = this.rates.of(cluster.time);
    say(this.rate, cluster.about.live
      ? `${rates.arrived.toFixed(1)} arrive and ${rates.bound.toFixed(1)} are bound each second (last minute)`
      : "as it was when this was written down");
    if (!cluster.waiting.size) {
      put(this.rest, notice("Nothing waits", "Every pod has a node. New pods appear here while they wait for one."));
      return;
    }
    if (this.rest.lastChild !== this.table.root) {
      put(this.rest, h("div", { class: "queue-causes" }, h("h2", null, "By cause"), this.list), this.table.root);
    }
    this.causes(cluster);
    this.table.show(this.items(cluster));
  }

  /** @param {Cluster} cluster */
  causes(cluster) {
    const all = causes(cluster).filter((cause) => !this.query.place || cause.place === this.query.place);
    const key = JSON.stringify([this.query, all.map((cause) => [cause.title, cause.slots.length])]);
    if (this.list.dataset.key === key) return;
    this.list.dataset.key = key;
    put(this.list, all.slice(0, 60).map((cause) => {
      const chosen = this.query.cause === cause.title;
      return h("li", null, h("a", { class: chosen ? "chosen" : "", "aria-current": chosen ? "true" : "false", href: formatRoute("queue", "", { ...this.query, cause: chosen ? undefined : cause.title }) },
        h("b", { class: "number" }, count(cause.slots.length)), " ", cause.title));
    }));
  }

  /** @param {Cluster} cluster @returns {Item[]} */
  items(cluster) {
    const { place, cause } = this.query;
    if (cause) {
      const found = causes(cluster).find((item) => item.title === cause && (!place || item.place === place));
      return (found?.slots ?? []).map((slot) => ({ cluster, slot }));
    }
    const found = [];
    for (const slot of cluster.waiting) {
      if (!place || cluster.places[cluster.pods.columns.place[slot]] === place) found.push({ cluster, slot });
    }
    return found;
  }

  close() {
    this.table.close();
  }
}

/** @param {Item} item */
function waits({ cluster, slot }) {
  const made = cluster.pods.columns.created[slot];
  return made ? Math.max(0, cluster.time - made) : 0;
}

/** @param {Item} item */
function why({ cluster, slot }) {
  const place = cluster.places[cluster.pods.columns.place[slot]];
  return causeOf(cluster.pods.message.get(slot) ?? "") || /** @type {Record<string, string>} */ (MEANING)[place];
}
