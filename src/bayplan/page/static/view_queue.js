// Queue: how many pods wait where, how fast they come and go, and every one of them by cause.

import { h, heading, keep, notice, put, say } from "./dom.js";
import { history as load } from "./live.js";
import { podLink } from "./panel.js";
import { causes, causeOf, lined, longest, meaningOf, ORDER, paceText, places, sizes, titleOf, waits } from "./queueing.js";
import { formatRoute } from "./router.js";
import { VirtualTable } from "./table.js";
import { age, count, cpu, memory } from "./units.js";

/** @import { Cluster } from "./cluster.js" */
/** @import { State, Store } from "./store.js" */
/** @typedef {{cluster: Cluster, slot: number}} Item */

const PARTLY = "Told by the pods’ own objects. Which of them are active, backing off, waiting or in binding only their scheduler knows; the page of bayplan up asks it.";

export class QueueView {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    /** @type {Record<string, string>} */
    this.query = {};
    this.tiles = h("div", { class: "tiles", role: "group", "aria-label": "Places in the queue" });
    this.rate = h("span");
    this.known = h("span", { class: "dim" });
    this.list = h("ul", { class: "causes picks" });
    /** @type {VirtualTable<Item>} */
    this.table = new VirtualTable("Pods in the queue", [
      { title: "Pod", width: 3.9, narrow: true, key: (i) => i.cluster.podKey(i.slot), cell: (i) => podLink(i.cluster, i.slot) },
      { title: "Place", width: 1.6, key: (i) => i.cluster.pods.columns.place[i.slot], cell: (i) => titleOf(i.cluster, placeOf(i)) },
      { title: "Waits", width: 0.9, number: true, narrow: true, key: (i) => waits(i.cluster, i.slot), cell: (i) => (waits(i.cluster, i.slot) < 0 ? "–" : age(waits(i.cluster, i.slot))) },
      { title: "Priority", width: 0.9, number: true, key: (i) => i.cluster.pods.columns.priority[i.slot], cell: (i) => String(i.cluster.pods.columns.priority[i.slot]) },
      { title: "CPU", width: 0.8, number: true, key: (i) => i.cluster.pods.columns.cpu[i.slot], cell: (i) => cpu(i.cluster.pods.columns.cpu[i.slot]) },
      { title: "Memory", width: 1, number: true, key: (i) => i.cluster.pods.columns.memory[i.slot], cell: (i) => memory(i.cluster.pods.columns.memory[i.slot]) },
      { title: "Cause", width: 7, narrow: true, below: true, key: (i) => why(i), cell: (i) => lined(why(i)) },
    ], { sort: 2, down: true, open: (i) => { location.hash = formatRoute("pod", i.cluster.podKey(i.slot), i.cluster.moment); }, empty: "No pod waits here." });
    this.beside = h("div", { class: "queue-causes" }, h("h2", null, "By cause"), this.list);
    this.rest = h("div", { class: "queue-rest" }, this.beside, this.table.root);
    this.main = h("div", { class: "queue-main" }, heading("Queue"), this.tiles, h("p", { class: "rates" }, this.rate, " ", this.known), this.rest);
    this.root = h("div", { class: "view scroll queue-view" }, this.main);
    this.counted = "";
  }

  /** @param {State} state */
  update(state) {
    const cluster = state.shown;
    if (!cluster) return;
    this.query = state.route.query;
    const found = sizes(cluster);
    const oldest = longest(cluster);
    keep(this.tiles, places(cluster).map(({ name, title, meaning }) => {
      const chosen = this.query.place === name;
      return h("a", {
        class: `tile ${name}${chosen ? " chosen" : ""}${found[name] ? "" : " none"}`, "aria-current": chosen ? "true" : "false",
        href: formatRoute("queue", "", { ...cluster.moment, place: chosen ? undefined : name }),
      }, h("b", null, count(found[name])), h("span", null, title), h("small", { class: "dim" }, meaning), oldest[name] < 0 ? null : h("small", { class: "dim oldest" }, `the longest for ${age(oldest[name])}`));
    }));
    say(this.known, places(cluster).length < ORDER.length ? PARTLY : "");
    say(this.rate, this.pace(cluster, state));
    if (!cluster.waiting.size) {
      put(this.rest, notice("Nothing waits", cluster.moment.t ? "Every pod had a node at this moment." : "Every pod has a node. New pods appear here while they wait for one."));
      return;
    }
    if (this.rest.lastChild !== this.table.root) put(this.rest, this.beside, this.table.root);
    this.causes(cluster);
    this.table.show(this.items(cluster));
  }

  /** How fast pods come and go. @param {Cluster} cluster @param {State} state */
  pace(cluster, state) {
    if (cluster.about.kind === "snapshot") return "One moment only, so how fast pods come and go is not known.";
    const run = this.query.run ?? "";
    const history = state.histories[run];
    if (cluster === state.cluster && cluster.about.live) return paceText(state.rates.of(cluster.time), "last");
    if (!history) {
      load(this.store, run).catch(() => {});
      return "";
    }
    const key = `${run} ${cluster.time} ${history.grown}`;
    if (this.counted !== key) this.past = paceText(history.pace(cluster.time), "preceding");
    this.counted = key;
    return this.past ?? "";
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
        h("b", { class: "number" }, count(cause.slots.length)), " ", lined(cause.title)));
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
}

/** @param {Item} item */
function placeOf({ cluster, slot }) {
  return cluster.places[cluster.pods.columns.place[slot]];
}

/** @param {Item} item */
function why(item) {
  const { cluster, slot } = item;
  const nominated = cluster.pods.columns.nominated[slot];
  const cause = causeOf(cluster.pods.message.get(slot) ?? "") || meaningOf(cluster, placeOf(item));
  return nominated ? `nominated to ${cluster.nodes.name[nominated - 1]} · ${cause}` : cause;
}
