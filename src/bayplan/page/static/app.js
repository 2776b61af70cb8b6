// Starts the page: the frame around the views, the search, the theme, and which view is shown.

import { titled } from "./changes.js";
import { busy, h, notice, put, say } from "./dom.js";
import { search } from "./groups.js";
import { Rates } from "./history.js";
import { saved, spokenOf, start, tick } from "./live.js";
import { momentOf, timeOf, told } from "./moments.js";
import { BETWEEN, formatRoute, parseRoute } from "./router.js";
import { Store } from "./store.js";
import { clock, count, percent, some } from "./units.js";
import { MapView } from "./view_map.js";

/** @import { State } from "./store.js" */
/** @typedef {{root: HTMLElement, update: (state: State) => void, leave?: () => void}} View `leave`: it is out of sight until the next update */

const TABS = [["map", "Map"], ["queue", "Queue"], ["what-if", "What-if"], ["time", "Time"]];
/** @type {Record<State["status"], string>} */
const STATUS = { loading: "loading", live: "live", cut: "cluster cut off", lost: "connection lost", still: "not live", failed: "failed" };
/** @type {Partial<Record<State["status"], string>>} */
const MEANING = { cut: "The API server does not answer. What is shown is of that moment; it goes on when the server answers again.", lost: "bayplan does not answer; is it still running? What is shown is of that moment." };
const SECOND = 1000;

/** Views that bring their modules when they are opened, or when nothing else is to do. */
const LATER = {
  queue: () => import("./view_queue.js"),
  pod: () => import("./view_pod.js"),
  whatIf: () => import("./view_whatif.js"),
  time: () => import("./view_time.js"),
};

/** @type {Record<string, (store: Store) => View | Promise<View>>} */
const MAKE = {
  map: () => new MapView(),
  queue: async (store) => new (await LATER.queue()).QueueView(store),
  pod: async () => new (await LATER.pod()).PodView(),
  "what-if": async (store) => new (await LATER.whatIf()).WhatIfView(store),
  time: async (store) => new (await LATER.time()).TimeView(store),
};

/** @returns {"light" | "dark"} */
function preferred() {
  const chosen = kept("theme");
  if (chosen === "light" || chosen === "dark") return chosen;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

/** @param {string} key @param {string} [value] */
function kept(key, value) {
  try {
    if (value !== undefined) localStorage.setItem(key, value);
    return localStorage.getItem(key);
  } catch {
    return null; // a file that was saved has no storage
  }
}

class App {
  constructor() {
    this.store = new Store({
      route: parseRoute(location.hash), cluster: null, shown: null, status: "loading", problem: "", histories: {}, theme: preferred(), frame: 0,
      since: 0, skew: 0, rates: new Rates(),
    });
    /** Views that were opened, as they were left. @type {Map<string, View>} */
    this.views = new Map();
    /** What their addresses said. @type {Record<string, Record<string, string>>} */
    this.left = {};
    /** @type {View | null} */
    this.view = null;
    this.shown = "";
    this.name = h("span", { class: "cluster-name" });
    this.status = h("span", { class: "status", role: "status" });
    this.at = h("a", { class: "at" });
    this.present = h("a", { onclick: () => { this.moved = true; } }); // it goes when it was used; the focus must not
    this.when = h("span", { class: "when", role: "status", hidden: true }, this.at, " — ", this.present);
    this.moved = false;
    this.facts = h("p", { class: "facts", "aria-label": "Totals" });
    this.nav = h("nav", { "aria-label": "Views" }, TABS.map(([view, title]) => h("a", { href: `#/${view}`, "data-view": view }, title)));
    this.brand = h("a", { class: "brand", href: "#/map" }, "bayplan");
    this.box = /** @type {HTMLInputElement} */ (h("input", {
      type: "search", placeholder: "Find node or pod", "aria-label": "Find a node or pod", spellcheck: false, role: "combobox",
      "aria-expanded": "false", "aria-controls": "found", autocomplete: "off",
      oninput: () => this.find(), onkeydown: (/** @type {KeyboardEvent} */ event) => this.searchKey(event), onblur: () => setTimeout(() => this.hide(), 150),
    }));
    this.list = h("ul", { id: "found", class: "found", role: "listbox", hidden: true });
    this.theme = h("button", { type: "button", class: "quiet", onclick: () => this.turn() }, "◐");
    this.save = h("a", { class: "button quiet", href: "api/report", download: true, hidden: saved() }, "Save");
    this.main = h("main", { id: "main", tabindex: "-1" });
    put(document.body,
      h("a", { class: "skip", href: "#main", onclick: (/** @type {Event} */ event) => { event.preventDefault(); this.main.focus(); } }, "Skip to the view"),
      h("header", null, this.brand, this.name, this.status, this.when, this.nav,
        h("div", { class: "search" }, this.box, this.list), this.facts, this.save, this.theme),
      this.main);
    this.store.subscribe((state) => this.update(state));
    addEventListener("hashchange", () => this.turned(parseRoute(location.hash)));
    addEventListener("keydown", (event) => this.shortcut(event));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.store.set({ theme: preferred() }));
    setInterval(() => this.aged(), SECOND);
    this.store.set({});
    start(this.store);
  }

  /** Ages grow in sight only. */
  aged() {
    const { view, query } = this.store.state.route;
    if (!document.hidden && (view !== "map" || query.node)) tick(this.store);
  }

  /** Another address. Of another view or pod it is told where the reader is now. @param {import("./router.js").Route} route */
  turned(route) {
    const before = this.store.state.route;
    this.moved ||= before.view !== route.view || before.path !== route.path;
    this.store.set({ route });
  }

  /** @param {State} state */
  update(state) {
    state.shown = spokenOf(this.store, state.route.query);
    document.documentElement.dataset.theme = state.theme;
    this.theme.setAttribute("aria-label", state.theme === "dark" ? "Use light colours" : "Use dark colours");
    this.frame(state);
    const { view, query } = state.route;
    this.left[view] = query;
    if (!state.cluster) {
      this.drop();
      if (state.status === "failed") {
        put(this.main, notice("The cluster could not be loaded", state.problem, h("button", { type: "button", onclick: () => start(this.store) }, "Try again")));
      } else put(this.main, h("div", { class: "skeleton", role: "status", "aria-label": "Loading the cluster" }, Array.from({ length: 24 }, () => h("i"))));
      return;
    }
    if (!state.shown && view !== "time") {
      this.drop();
      put(this.main, busy("Loading the history", "Every change since the beginning."));
      return;
    }
    if (this.shown !== view) this.open(view);
    this.view?.update(state);
    if (this.moved && this.view) {
      this.moved = false;
      const panel = state.route.query.node ? this.main.querySelector(".panel h2[tabindex]") : null;
      /** @type {HTMLElement | null} */ (panel ?? this.main.querySelector("h1"))?.focus({ preventScroll: true });
    }
  }

  /** @param {string} view */
  async open(view) {
    this.drop();
    this.shown = view;
    try {
      const made = this.views.get(view) ?? (MAKE[view] ?? MAKE.map)(this.store);
      if (made instanceof Promise) {
        const opened = await made;
        if (this.shown === view && !this.view) this.enter(view, opened);
        this.store.set({});
      } else this.enter(view, made);
    } catch {
      if (this.shown !== view) return;
      this.shown = "";
      put(this.main, notice("This view could not be loaded", "The server does not answer; is bayplan still running?",
        h("button", { type: "button", onclick: () => this.store.set({}) }, "Try again")));
    }
  }

  /** @param {string} name @param {View} view */
  enter(name, view) {
    this.view = view;
    this.views.set(name, view);
    put(this.main, view.root);
    for (const item of /** @type {Iterable<HTMLElement>} */ (this.main.querySelectorAll("[data-top]"))) item.scrollTop = Number(item.dataset.top);
    requestIdleCallback(() => Object.values(LATER).forEach((load) => load().catch(() => {})));
  }

  /** Put a view aside; what leaves the page forgets how far it was scrolled. */
  drop() {
    this.view?.leave?.();
    for (const item of /** @type {Iterable<HTMLElement>} */ (this.main.querySelectorAll("*"))) {
      if (item.scrollTop || item.dataset.top) item.dataset.top = String(item.scrollTop);
    }
    this.view = null;
    this.shown = "";
  }

  /** @param {State} state */
  frame(state) {
    const { cluster, route } = state;
    const moment = momentOf(route.query);
    this.brand.setAttribute("href", formatRoute("map", "", moment));
    for (const link of this.nav.children) {
      const view = /** @type {HTMLElement} */ (link).dataset.view ?? "";
      link.setAttribute("href", this.address(view));
      if (view === route.view || (view === "queue" && route.view === "pod")) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    const cut = state.status === "cut" || state.status === "lost";
    const words = cut ? `${STATUS[state.status]} since ${clock(state.since)}, trying again` : STATUS[state.status];
    say(this.status, state.status === "still" && cluster ? (saved() ? "saved report" : cluster.about.kind) : words);
    this.status.title = state.problem || (MEANING[state.status] ?? "");
    this.status.className = `status ${state.status}`;
    if (!cluster) return;
    say(this.name, cluster.about.name);
    document.title = titleOf(route, cluster.about.name);
    this.tellMoment(state);
    const { nodes, pods, waiting, sums } = (state.shown ?? cluster).totals();
    const parts = [some(nodes, "node"), some(pods + waiting, "pod"), `${count(waiting)} pending`];
    for (const name of /** @type {const} */ (["cpu", "memory", "gpu"])) if (sums[name].all) parts.push(`${name} ${percent(sums[name].used, sums[name].all)}`);
    say(this.facts, parts.map((part) => part.replace(" ", "\u00a0")).join(" · ")); // a line ends between facts
    this.save.setAttribute("href", `api/report?at=${encodeURIComponent(location.hash)}`);
  }

  /** Which moment is shown, and the way back. @param {State} state */
  tellMoment({ route, cluster, status, histories, shown }) {
    const { run, t } = momentOf(route.query);
    const past = (t !== undefined || run !== undefined) && cluster?.about.kind !== "snapshot";
    this.when.hidden = !past;
    this.status.hidden = past && (status === "live" || status === "still");
    if (!past || !cluster) return;
    const history = histories[run ?? ""];
    const time = history && timeOf(history, t, cluster.about.wall);
    const title = run && cluster.about.runs.find((item) => item.name === run)?.title;
    const known = !shown || shown !== cluster;
    say(this.at, known ? [time === undefined || !history ? "" : `at ${told(history, time, cluster.about.wall)}`, title ? `in ${title}` : ""].filter(Boolean).join(" ") || "the past"
      : "that moment is not known");
    this.at.setAttribute("href", formatRoute("time", "", { run, t }));
    this.at.setAttribute("title", "Show it on the timeline");
    say(this.present, cluster.about.wall ? "back to now" : "back to the end");
    this.present.setAttribute("href", formatRoute(route.view, route.path, { ...route.query, run: undefined, t: undefined }));
  }

  /** A view as it was left, at the moment that is shown. @param {string} view */
  address(view) {
    return formatRoute(view, "", { ...this.left[view], ...momentOf(this.store.state.route.query) });
  }

  turn() {
    const theme = this.store.state.theme === "dark" ? "light" : "dark";
    kept("theme", theme);
    this.store.set({ theme });
  }

  find() {
    const cluster = this.store.state.shown;
    const found = cluster ? search(cluster, this.box.value, 10) : [];
    this.list.hidden = !this.box.value.trim();
    this.box.setAttribute("aria-expanded", String(!this.list.hidden));
    put(this.list, found.length ? found.map((item, i) => h("li", { role: "option", id: `found-${i}`, "aria-selected": i === 0 ? "true" : "false" },
      h("a", { href: this.target(item), tabindex: "-1", onmousedown: (/** @type {Event} */ event) => event.preventDefault(), onclick: () => this.chosen() },
        h("span", { class: "dim" }, item.kind), " ", item.name)))
      : h("li", { class: "dim", role: "option", "aria-selected": "false" }, "nothing has this name"));
  }

  /** @param {{kind: string, name: string, slot: number}} item */
  target(item) {
    const { view, query } = this.store.state.route;
    if (item.kind === "pod") return formatRoute("pod", item.name, momentOf(query));
    return formatRoute("map", "", { ...(view === "map" ? query : momentOf(query)), node: item.name, pod: undefined });
  }

  /** Something found was chosen: the box is empty again, and the reader goes on in the view. */
  chosen() {
    this.box.value = "";
    this.hide();
    this.moved = true;
    this.store.set({});
  }

  /** @param {KeyboardEvent} event */
  searchKey(event) {
    const items = [...this.list.querySelectorAll("a")];
    const at = items.findIndex((item) => item.parentElement?.getAttribute("aria-selected") === "true");
    if (event.key === "Escape") {
      this.box.value = "";
      this.hide();
    } else if (event.key === "Enter" && items[at]) {
      location.hash = items[at].hash;
      this.chosen();
    } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && items.length) {
      const next = (at + (event.key === "ArrowDown" ? 1 : items.length - 1)) % items.length;
      items.forEach((item, i) => item.parentElement?.setAttribute("aria-selected", String(i === next)));
      this.box.setAttribute("aria-activedescendant", `found-${next}`);
    } else return;
    event.preventDefault();
  }

  hide() {
    this.list.hidden = true;
    this.box.setAttribute("aria-expanded", "false");
  }

  /** @param {KeyboardEvent} event */
  shortcut(event) {
    const typing = event.target instanceof HTMLElement && /INPUT|SELECT|TEXTAREA/.test(event.target.tagName);
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const views = { m: "map", q: "queue", w: "what-if", t: "time" };
    const view = /** @type {Record<string, string>} */ (views)[event.key];
    if (event.key === "/") this.box.focus();
    else if (view) location.hash = this.address(view);
    else return;
    event.preventDefault();
  }
}

/** What a tab or a screen reader calls the page. @param {import("./router.js").Route} route @param {string} name of the cluster */
function titleOf({ view, path, query }, name) {
  const tab = TABS.find(([key]) => key === view)?.[1] ?? "Pod";
  const what = view === "pod" ? path : view === "what-if" ? (query.change ? titled(query.change.split(BETWEEN)[0]) : "") : (query.node ?? "");
  return [what, tab, name, "bayplan"].filter(Boolean).join(" · ");
}

new App();
