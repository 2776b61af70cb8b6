// The page of the global scheduler: a map of its sites, what is held where, and a form to place more.

import { MapControls } from "./controls.js";
import { busy, h, keep, notice, put, say } from "./dom.js";
import { MapCanvas } from "./map.js";
import { meter } from "./panel.js";
import { formatRoute, parseRoute } from "./router.js";
import { clusterOf, requestOf, stock } from "./sites.js";
import { SitesFeed } from "./sites_feed.js";
import { VirtualTable } from "./table.js";
import { clock, count, percent, some } from "./units.js";

/** @import { Held, Site } from "./sites.js" */
/** @import { Cluster } from "./cluster.js" */
/** @typedef {{held: Held, group: Held["resource_groups"][number]}} Line */

const EVERY = 200;
/** Thousands of sites take long to draw anew: the reader is left alone for so many times as long. */
const SHARE = 5;
/** @type {[string, string][]} */
const COLOURS = [["cpu", "vCPUs in use"], ["memory", "Memory in use"], ["free", "Free space"], ["owner", "Group of most allocations"], ["state", "State"]];

/** @param {string} label @param {HTMLElement} field */
function named(label, field) {
  return h("label", null, `${label} `, field);
}

class Sites {
  constructor() {
    /** @type {Site[]} */
    this.sites = [];
    /** @type {Held[]} */
    this.held = [];
    /** @type {Cluster | null} */
    this.cluster = null;
    this.timer = 0;
    this.quietUntil = 0;
    this.token = /** @type {HTMLInputElement} */ (h("input", { type: "password", autocomplete: "off", size: "10", onchange: () => this.feed.restart() }));
    this.feed = new SitesFeed(() => this.headers(), (problem) => this.news(problem));
    this.status = h("span", { class: "status", role: "status" }, "loading");
    this.facts = h("p", { class: "facts", "aria-label": "Totals" });
    this.theme = h("button", { type: "button", class: "quiet", "aria-label": "Other colours", onclick: () => this.turn() }, "◐");
    this.map = new MapCanvas({ label: "Map of the sites", select: (slot) => this.go({ site: slot >= 0 ? this.sites[slot].site_id : undefined }), key: "allocation, coloured by its group", noun: "site", describe: (slot) => this.sentence(slot) });
    this.controls = new MapControls((change) => this.go(change), COLOURS);
    this.aside = h("aside", { class: "side" });
    this.panel = h("section", { class: "panel", "aria-label": "Site" });
    this.one = h("section", { class: "panel", "aria-label": "Allocation" });
    /** @type {{site: Site | null, flavors: any[], problem: string}} what is known of the site beside the map */
    this.stocks = { site: null, flavors: [], problem: "" };
    this.form = this.fields();
    this.answer = h("div", { class: "answer", id: "answer", role: "status" });
    this.placing = h("section", { class: "panel", "aria-label": "Place" }, this.form, this.answer);
    /** @type {VirtualTable<Line>} */
    this.table = new VirtualTable("Allocations", [
      { title: "Group", width: 2, narrow: true, key: (i) => i.group.name, cell: (i) => h("a", { href: this.link({ allocation: i.held.id, site: undefined }) }, i.group.name) },
      { title: "Machines", width: 3, key: (i) => machines(i), cell: (i) => machines(i) },
      { title: "Site", width: 2, narrow: true, key: (i) => i.group.selected.node_id, cell: (i) => h("a", { href: this.link({ site: i.group.selected.node_id }) }, i.group.selected.node_id) },
      { title: "State", width: 1.5, narrow: true, key: (i) => i.held.state, cell: (i) => i.held.state },
      { title: "Last", width: 3, below: true, narrow: true, key: (i) => last(i.held), cell: (i) => last(i.held) },
      { title: "Id", width: 4, key: (i) => i.held.id, cell: (i) => i.held.id },
    ], { sort: 0, empty: "Nothing is held yet." });
    this.stage = h("div", { class: "stage" }, busy("Loading the sites", "All of them, with what is free."));
    this.main = h("main", { id: "main", tabindex: "-1" }, h("div", { class: "view" }, h("h1", { class: "hidden" }, "Sites"),
      h("div", { class: "bar" }, this.controls.labels, this.controls.legend),
      h("div", { class: "split" }, h("div", { class: "sites-main" }, this.stage, h("div", { class: "held" }, this.table.root)), this.aside)));
    put(document.body, h("a", { class: "skip", href: "#main", onclick: (/** @type {Event} */ event) => { event.preventDefault(); this.main.focus(); } }, "Skip to the view"),
      h("header", null, h("a", { class: "brand", href: "#/map" }, "bayplan"), h("span", { class: "cluster-name" }, "global scheduler"), this.status, this.facts,
        h("a", { class: "quiet", href: "openapi.json" }, "API"), h("form", { onsubmit: (/** @type {Event} */ event) => event.preventDefault() }, named("token", this.token)), this.theme), this.main);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    /** @type {"light" | "dark"} */
    this.colours = dark.matches ? "dark" : "light";
    addEventListener("hashchange", () => this.show());
    addEventListener("visibilitychange", () => this.later());
    this.feed.run();
  }

  /** @param {string} problem why there is no connection; none: something came */
  news(problem) {
    const { feed } = this;
    const loading = !problem && !feed.live ? `loading ${count(feed.sites.length)} of ${count(feed.expected)} sites` : "";
    say(this.status, problem ? "connection lost, trying again" : loading || "live");
    this.status.className = `status ${problem ? "lost" : "live"}`;
    if (problem && !this.cluster) put(this.stage, notice("The sites could not be loaded", problem));
    if (!problem && feed.live) this.later();
  }

  /** Draw what came, but not all the time. */
  later() {
    if (this.timer || !this.feed.live || document.visibilityState !== "visible") return;
    this.timer = setTimeout(() => {
      this.timer = 0;
      const begin = performance.now();
      [this.sites, this.held] = [this.feed.sites, [...this.feed.held.values()]];
      this.cluster = clusterOf(this.sites, this.held, Date.now() / 1000);
      this.show();
      this.quietUntil = performance.now() + Math.max(EVERY, SHARE * (performance.now() - begin));
    }, Math.max(0, this.quietUntil - performance.now()));
  }

  /** @returns {Record<string, string>} */
  headers() {
    return this.token.value ? { authorization: `Bearer ${this.token.value}` } : {};
  }

  /** @param {Record<string, string | undefined>} change */
  link(change) {
    return formatRoute("map", "", { ...parseRoute(location.hash).query, ...change });
  }

  /** @param {Record<string, string | undefined>} change */
  go(change) {
    location.hash = this.link(change);
  }

  turn() {
    this.colours = this.colours === "dark" ? "light" : "dark";
    this.show();
  }

  /** @param {string} path @param {unknown} [body] @returns {Promise<{status: number, body: any, text: string}>} */
  async ask(path, body) {
    const headers = this.headers();
    if (body !== undefined) headers["content-type"] = "application/json";
    const found = await fetch(path, body === undefined ? { headers } : { method: "POST", headers, body: typeof body === "string" ? body : JSON.stringify(body) });
    const text = await found.text();
    return { status: found.status, body: parsed(text), text };
  }

  show() {
    document.documentElement.dataset.theme = this.colours;
    const { cluster } = this;
    if (!cluster) return;
    const { query } = parseRoute(location.hash);
    const { sums, ready } = cluster.totals();
    const asked = this.feed.held.get(query.allocation ?? "");
    document.title = [query.site ?? asked?.id, "Sites", "bayplan"].filter(Boolean).join(" · ");
    say(this.facts, `${some(this.sites.length, "site")} · ${count(ready)} usable · ${some(this.feed.all, "allocation")}${this.feed.all > this.held.length ? ` (the newest ${count(this.held.length)} are shown)` : ""} · vcpus ${percent(sums.cpu.used, sums.cpu.all)} · memory ${percent(sums.memory.used, sums.memory.all)}`);
    const chosen = this.controls.choices(cluster, { group: "region", ...query });
    if (!this.sites.length) put(this.stage, notice("No sites", "The inventory lists none yet; they appear here as they come."));
    else if (this.stage.firstChild !== this.map.root) put(this.stage, this.map.root);
    const selected = query.site ? cluster.nodeSlot(query.site) : -1;
    this.map.show(cluster, { ...chosen, theme: this.colours, selected, shown: null });
    if (this.map.scene) this.controls.key(cluster, this.map.scene.colouring);
    if (selected >= 0) this.describe(this.sites[selected]);
    else if (asked) this.tell(asked);
    const beside = selected >= 0 ? this.panel : asked ? this.one : this.placing;
    if (this.aside.firstChild !== beside) put(this.aside, beside);
    this.table.show(this.held.flatMap((held) => held.resource_groups.map((group) => ({ held, group }))).filter(({ group }) => !query.site || group.selected.node_id === query.site));
  }

  /** @param {number} slot */
  sentence(slot) {
    const site = this.sites[slot];
    const part = (/** @type {"vcpus" | "memory"} */ what) => {
      const { total, free } = stock(site, what);
      return `${what} ${count(total - free)} of ${count(total)} (${percent(total - free, total)})`;
    };
    return `${site.site_id} · ${site.status} · ${part("vcpus")} · ${part("memory")} · ${some(this.cluster?.podsOn(slot).length ?? 0, "allocation")}`;
  }

  /** @param {Site} site */
  describe(site) {
    const stocks = [
      ...Object.entries(site.machines).flatMap(([kind, machine]) => [meter("vCPUs", machine.vcpus.total - machine.vcpus.free, machine.vcpus.total, count, kind), meter("Memory", machine.memory.total - machine.memory.free, machine.memory.total, count, kind)]),
      ...Object.entries(site.storage).map(([kind, { total, free }]) => meter(kind, total - free, total, count)),
      site.eips ? meter("EIPs", site.eips.total - site.eips.free, site.eips.total, count, site.eips.pool) : null,
    ];
    keep(this.panel, h("div", { class: "panel-head" }, h("h2", { tabindex: "-1" }, site.site_id), h("a", { class: "quiet", href: this.link({ site: undefined }), "aria-label": "Close the site" }, "✕")),
      h("p", { class: "chips" }, h("span", { class: `chip ${site.status === "Normal" ? "good" : "warn"}` }, site.status), h("span", { class: "dim" }, `${site.region} · ${site.availability_zone}`)),
      stocks, h("h2", null, "Machines by flavor"), this.flavors(site));
  }

  /** What of each flavor a site has, as the scheduler counts it. @param {Site} site */
  flavors(site) {
    if (this.stocks.site !== site) {
      const same = this.stocks.site?.site_id === site.site_id;
      this.stocks = { site, flavors: same ? this.stocks.flavors : [], problem: "" };
      this.ask(`v1/sites/${encodeURIComponent(site.site_id)}`).then(({ status, body }) => {
        if (this.stocks.site !== site) return;
        if (status === 200) this.stocks.flavors = body.site.flavors;
        else this.stocks.problem = body?.error_message ?? `the server answered ${status}`;
        this.show();
      }, () => {});
    }
    const { flavors, problem } = this.stocks;
    if (problem) return h("p", { class: "bad" }, problem);
    if (!flavors.length) return h("p", { class: "dim" }, "None is sold here.");
    return h("ul", { class: "plain" }, flavors.map(({ flavor_id: id, stock: all, held, free }) =>
      h("li", null, meter(id, all - free, all, count), h("p", { class: "dim" }, `${count(free)} free, ${count(held)} held by allocations`))));
  }

  /** One allocation: where it is and what became of it. @param {Held} held */
  tell(held) {
    const history = held.history ?? [];
    keep(this.one, h("div", { class: "panel-head" }, h("h2", { tabindex: "-1" }, held.resource_groups[0]?.name ?? held.id), h("a", { class: "quiet", href: this.link({ allocation: undefined }), "aria-label": "Close the allocation" }, "✕")),
      h("p", { class: "chips" }, h("span", { class: `chip ${held.state === "committed" ? "good" : "warn"}` }, held.state), held.priority ? h("span", { class: "dim" }, `priority ${count(held.priority)}`) : null, held.expires ? h("span", { class: "dim" }, `until ${clock(held.expires)}`) : null),
      h("p", { class: "dim" }, held.id),
      h("ul", { class: "plain" }, held.resource_groups.map((group) => h("li", null, h("a", { href: this.link({ site: group.selected.node_id, allocation: undefined }) }, group.selected.node_id), `: ${machines({ held, group })}`))),
      h("h2", null, "History"), history.length ? h("ul", { class: "plain" }, history.toReversed().map((entry) => h("li", null, `${clock(entry.at)} ${entry.what}`))) : h("p", { class: "dim" }, "Nothing happened to it since it was placed."));
  }

  /** The form, and the same as JSON. */
  fields() {
    const text = (/** @type {string} */ value) => /** @type {HTMLInputElement} */ (h("input", { type: "text", value, spellcheck: false }));
    const number = (/** @type {string} */ least) => /** @type {HTMLInputElement} */ (h("input", { type: "number", value: least, ...(least === "1" ? { min: least } : {}) }));
    const [name, flavor, storage, regions, machineCount, replicas, priority] = [text("web"), text("c6.large.2"), text(""), text(""), number("1"), number("1"), number("0")];
    [storage.placeholder, regions.placeholder] = ["none, or: SAS 40, SSD 10", "any"];
    const tick = (/** @type {Record<string, unknown>} */ more) => /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", ...more }));
    const [addresses, preempt, dry] = [tick({}), tick({}), tick({ id: "dry", checked: true })];
    const strategy = /** @type {HTMLSelectElement} */ (h("select", null, h("option", { value: "centralize" }, "one site"), h("option", { value: "discrete" }, "apart")));
    const raw = /** @type {HTMLTextAreaElement} */ (h("textarea", { id: "body", rows: "10", spellcheck: false, "aria-label": "Request body", class: "wide" }));
    const body = () => JSON.stringify(requestOf({ name: name.value, flavor: flavor.value, count: Number(machineCount.value), replicas: Number(replicas.value), storage: storage.value, addresses: addresses.checked, strategy: strategy.value, regions: regions.value, priority: Number(priority.value), preempt: preempt.checked }), null, 1);
    const write = () => { raw.value = body(); };
    const form = h("form", { class: "place", oninput: (/** @type {Event} */ event) => event.target !== raw && write(), onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); this.place(raw.value, dry.checked); } },
      h("h2", null, "Place"), named("Group", name), named("Flavors", flavor), named("Machines", machineCount), named("Storage, GB", storage), h("p", null, h("label", null, addresses, " public addresses")), named("Replicas", replicas), named("Replicas on", strategy), named("Regions", regions), named("Priority", priority), h("p", null, h("label", null, preempt, " release lower priorities for it")),
      h("details", null, h("summary", null, "As JSON"), raw), h("p", null, h("label", null, dry, " dry run"), " ", h("button", { type: "submit" }, "Place")));
    write();
    return form;
  }

  /** @param {string} body @param {boolean} dry */
  async place(body, dry) {
    put(this.answer, busy("Placing", dry ? "Nothing is kept." : ""));
    try {
      const found = await this.ask(`v1/allocations?explain=true${dry ? "&dry_run=true" : ""}`, body);
      put(this.answer, told(found.status, found.body, (site) => this.link({ site })));
    } catch {
      put(this.answer, notice("No answer", "The server does not answer; is the global scheduler still running?"));
    }
  }
}

/** @param {string} text */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** @param {Line} line */
function machines({ group }) {
  return group.resources.map((item) => `${item.count} × ${item.flavor_id}`).join(", ");
}

/** @param {Held} held */
function last(held) {
  const entry = held.history?.at(-1);
  return entry ? `${clock(entry.at)} ${entry.what}` : "";
}

/** What became of a request: where it is, or the funnel and what is nearest. @param {number} status @param {any} body @param {(site: string) => string} link */
function told(status, body, link) {
  const why = body?.explain;
  const site = (/** @type {string} */ name) => h("a", { href: link(name) }, name);
  return h("div", null,
    status < 300
      ? [h("p", { class: "good verdict" }, status === 201 ? "✓ placed" : "✓ would be placed"), ...body.allocation.resource_groups.map((/** @type {any} */ group) => h("p", null, `${group.name}: `, site(group.selected.node_id)))]
      : [h("p", { class: "bad verdict" }, `✗ ${body?.error_message ?? status}`), ...(body?.details ?? []).map((/** @type {any} */ item) => h("p", { class: "bad" }, `${item.field}: ${item.problem}`))],
    why ? h("section", { "aria-label": "Why" }, h("h2", null, `Sites left (of ${count(why.sites)})`),
      h("ul", { class: "funnel" }, why.funnel.map((/** @type {any} */ stage) => {
        const bar = h("div", { class: `funnel-bar${stage.left ? " fits" : ""}`, "aria-hidden": "true" });
        bar.style.width = `${Math.max(0.5, (100 * stage.left) / Math.max(why.sites, 1))}%`;
        return h("li", null, h("p", null, h("b", { class: "number" }, count(stage.left)), ` ${stage.filter}`), bar, Object.entries(stage.reasons).map(([reason, sites]) => h("p", { class: "dim" }, `${count(Number(sites))} ${reason}`)));
      })),
      why.nearest && status >= 300 ? h("p", null, "nearest: ", site(why.nearest.site), why.nearest.missing.map((/** @type {any} */ item) => h("span", { class: "dim" }, ` · ${item.what}: ${count(item.needed)} needed, ${count(item.free)} free`))) : null,
      (why.relaxations ?? []).map((/** @type {any} */ item) => h("p", null, `would fit: ${item.change} → `, site(item.site)))) : null);
}

new Sites();
