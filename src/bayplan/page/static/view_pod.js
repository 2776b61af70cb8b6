// Pod: the whole answer of why: the funnel, every node, scores, history, and the changes that help.

import { busy, h, keep, notice, put } from "./dom.js";
import { best, runnerUp, verdicts } from "./judging.js";
import { ask, kept, saved } from "./live.js";
import { named } from "./palette.js";
import { stateOf } from "./panel.js";
import { titleOf } from "./queueing.js";
import { BETWEEN, formatRoute } from "./router.js";
import { VirtualTable } from "./table.js";
import { age, count, cpu, memory } from "./units.js";

/** @import { Cluster } from "./cluster.js" */
/** @import { State } from "./store.js" */
/** @import { Judged, Score } from "./judging.js" */
/** @typedef {{plugin: string, reasons: string[], nodes: number, facts?: string[], examples?: string[], fits?: boolean}} FunnelRow */
/** @typedef {{run?: string, t?: string}} Moment */
/** @typedef {{change: string, side: string, node: string, commands?: string[], removes?: string[], try?: string[]}} Fix `try`: the same as changes of a what-if */
/**
 * @typedef {object} Answer what `bayplan why -o json` prints
 * @property {string} pod
 * @property {string} state
 * @property {string} summary
 * @property {string} message
 * @property {string | null} observed
 * @property {boolean | null} identical
 * @property {string} difference
 * @property {number} nodes
 * @property {FunnelRow[]} funnel
 * @property {{node: string, missing: string[]}[]} nearest
 * @property {string[]} preemption
 * @property {Fix[]} fixes
 * @property {string} node
 * @property {string[]} notes
 * @property {string[]} history
 */
/** @typedef {{name: string, total: number, parts: number[], why: string}} NodeRow */

export class PodView {
  constructor() {
    this.asked = "";
    this.head = h("div", { class: "pod-head" });
    this.body = h("div", { class: "pod-body" });
    this.root = h("div", { class: "view scroll pod-view" }, this.head, this.body);
    /** @type {VirtualTable<NodeRow> | null} */
    this.table = null;
  }

  /** @param {State} state */
  update(state) {
    const { path, query } = state.route;
    const cluster = state.shown;
    if (!cluster) return;
    this.theme = state.theme;
    this.cluster = cluster;
    this.moment = cluster.moment;
    this.facts(cluster, path);
    const wanted = `api/why?${new URLSearchParams({ pod: path, run: query.run ?? "", t: query.t ?? "" })}`;
    const mark = wanted + standing(cluster, path);
    if (this.asked === mark) return;
    this.asked = mark;
    this.answer(wanted, mark);
  }

  /** What is known without asking. @param {Cluster} cluster @param {string} key */
  facts(cluster, key) {
    const slot = cluster.podSlot(key);
    const name = h("h1", { tabindex: "-1" }, h("span", { class: "dim" }, `${key.split("/")[0]}/`), key.slice(key.indexOf("/") + 1));
    if (slot < 0) {
      keep(this.head, name, h("p", { class: "dim" }, cluster.moment.t ? "This pod was not here at this moment." : "This pod is not here any more."));
      return;
    }
    const columns = cluster.pods.columns;
    const node = columns.node[slot] ? cluster.nodes.name[columns.node[slot] - 1] : "";
    const owner = cluster.text(columns.owner[slot]);
    const parts = [
      h("span", { class: `chip ${node ? "good" : "warn"}` }, node ? stateOf(cluster, slot) : titleOf(cluster, cluster.places[columns.place[slot]])),
      node ? h("a", { href: formatRoute("map", "", { ...cluster.moment, node, pod: key }) }, node) : null,
      h("span", null, `cpu ${cpu(columns.cpu[slot])}`), h("span", null, `memory ${memory(columns.memory[slot])}`),
      columns.gpu[slot] ? h("span", null, `gpu ${columns.gpu[slot]}`) : null,
      columns.priority[slot] ? h("span", null, `priority ${columns.priority[slot]}`) : null,
      owner ? h("span", { class: "dim" }, owner) : null,
      columns.created[slot] ? h("span", { class: "dim" }, `${age(cluster.time - columns.created[slot])} old`) : null,
    ];
    keep(this.head, name, h("p", { class: "chips" }, parts));
  }

  /** @param {string} path @param {string} mark */
  async answer(path, mark) {
    put(this.body, busy("Asking the scheduler's engine", "The first question to a large cluster takes some seconds."));
    try {
      const found = (await kept(path)) ?? (saved() ? null : await ask(path));
      if (this.asked !== mark) return;
      if (found) this.show(found.answer, found.nodes);
      else put(this.body, this.cluster ? written(this.cluster, path) : null);
    } catch (problem) {
      if (this.asked === mark) put(this.body, notice("No answer", /** @type {Error} */ (problem).message, h("button", { type: "button", onclick: () => this.answer(path, mark) }, "Try again")));
    }
  }

  /** @param {Answer} answer @param {Judged} judged */
  show(answer, judged) {
    put(this.body,
      h("p", { class: "summary" }, answer.summary),
      proof(answer),
      (answer.notes ?? []).map((note) => h("p", { class: "dim" }, note)),
      h("div", { class: "pod-columns" }, h("div", null, funnel(answer, judged, this.moment ?? {}), nearest(answer, this.moment ?? {}), preemption(answer)), fixes(answer, this.moment ?? {})),
      scores(best(judged, answer.node), answer, this.theme ?? "light", this.moment ?? {}),
      answer.history?.length ? section("History", h("ol", { class: "history" }, answer.history.map((line) => h("li", null, line)))) : null,
      this.nodes(judged, answer.node));
  }

  /** @param {Judged} judged @param {string} chosen */
  nodes(judged, chosen) {
    this.table?.close();
    /** @type {NodeRow[]} */
    const rows = judged.scored.map(([name, total, ...parts]) => ({ name: String(name), total: Number(total), parts: parts.map(Number), why: name === chosen ? "fits ✓" : "fits" }));
    for (const [name, reason] of judged.rejected) rows.push({ name, total: -1, parts: [], why: judged.reasons[reason] });
    if (!rows.length) return null;
    const scored = judged.plugins.length > 0;
    this.table = new VirtualTable("Every node", [
      { title: "Node", width: 3, narrow: true, key: (row) => row.name, cell: (row) => nodeLink(this.moment ?? {}, row.name) },
      ...(scored ? [{ title: "Total", width: 1, number: true, narrow: true, key: (/** @type {NodeRow} */ row) => row.total, cell: (/** @type {NodeRow} */ row) => (row.total < 0 ? "" : String(row.total)) }] : []),
      ...judged.plugins.map((plugin, i) => ({ title: plugin.replace(/^NodeResources(?=.)/, ""), width: 1.5, number: true, key: (/** @type {NodeRow} */ row) => row.parts[i] ?? -1, cell: (/** @type {NodeRow} */ row) => (row.parts.length ? String(row.parts[i]) : "") })),
      { title: "Verdict", width: scored ? 5 : 7, narrow: true, below: true, key: (row) => row.why, cell: (row) => row.why },
    ], { sort: 1, down: scored, grow: "max(420px, 55vh)" });
    const box = h("div", { class: "pod-table" }, this.table.root);
    this.table.show(rows);
    return section(`Every node (${count(rows.length)})`, box);
  }
}

/** What an answer is about: when it changes, the answer is of before. The scheduler's word is part of it, as the answer is proven by it. @param {Cluster} cluster @param {string} key */
function standing(cluster, key) {
  const slot = cluster.podSlot(key);
  if (slot < 0) return "gone";
  const { columns, message } = cluster.pods;
  return `${columns.node[slot]} ${columns.place[slot] === 0} ${message.get(slot) ?? ""}`;
}

/** @param {string} title @param {...(Node | null)} body */
function section(title, ...body) {
  return h("section", { "aria-label": title }, h("h2", null, title), ...body);
}

/** Whether the cluster's own scheduler says the same. @param {Answer} answer */
function proof(answer) {
  if (answer.identical === true) return h("p", { class: "good" }, "✓ this is word for word what the cluster's scheduler said");
  if (answer.identical === false) {
    return h("details", null, h("summary", null, "The cluster's scheduler said something else"), h("p", null, answer.observed ?? ""), h("p", { class: "dim" }, answer.difference));
  }
  return null;
}

/** What a report holds of a pod that was not asked about when it was saved. @param {Cluster} cluster @param {string} asked */
function written(cluster, asked) {
  const key = new URLSearchParams(asked.slice(asked.indexOf("?"))).get("pod") ?? "";
  const slot = cluster.podSlot(key);
  const message = slot < 0 ? "" : cluster.pods.message.get(slot);
  const [namespace, name] = key.split("/");
  const command = `bayplan why ${name} -n ${namespace}`;
  return h("div", null,
    message ? section("What its scheduler said", h("p", null, message)) : h("p", { class: "summary" }, slot < 0 ? "The report does not hold this pod." : "Nothing is written on this pod."),
    h("p", { class: "dim" }, "This is a saved report; it holds the answer about a pod only if it was saved from that pod’s view. To ask again: ", h("code", null, command)));
}

/** @param {Moment} moment @param {string} node @param {string} [mark] */
function nodeLink(moment, node, mark = "") {
  return h("a", { href: formatRoute("map", "", { ...moment, node }) }, node, mark);
}

/** Bars that get shorter: nodes by verdict. @param {Answer} answer @param {Judged} judged @param {Moment} moment */
function funnel(answer, judged, moment) {
  /** @type {FunnelRow[]} */
  const found = judged.scored.length ? verdicts(judged, answer.nodes) : (answer.funnel ?? []);
  if (!found.length) return null;
  const most = Math.max(...found.map((row) => row.nodes), 1);
  return section(`Nodes by verdict (${count(answer.nodes)})`, h("ul", { class: "funnel" }, found.map((row) => {
    const bar = h("div", { class: `funnel-bar${row.fits ? " fits" : ""}`, "aria-hidden": "true" });
    bar.style.width = `${Math.max(0.5, (100 * row.nodes) / most)}%`;
    return h("li", null, h("p", null, h("b", { class: "number" }, count(row.nodes)), " ", row.reasons.join(", "), " ", row.plugin ? h("span", { class: "dim" }, row.plugin) : null), bar,
      (row.facts ?? []).map((fact) => h("p", { class: "dim" }, fact)),
      row.examples?.length ? h("p", { class: "dim" }, "e.g. ", row.examples.slice(0, 4).flatMap((name, i) => [i ? ", " : "", nodeLink(moment, name)])) : null);
  })));
}

/** @param {Answer} answer @param {Moment} moment */
function nearest(answer, moment) {
  if (!answer.nearest?.length) return null;
  return section("Nearest", h("ul", { class: "plain" }, answer.nearest.slice(0, 6).map((near) => h("li", null, nodeLink(moment, near.node), ": ", near.missing.join("; ")))));
}

/** @param {Answer} answer */
function preemption(answer) {
  if (!answer.preemption?.length) return null;
  return section("Preemption", h("ul", { class: "plain" }, answer.preemption.map((fact) => h("li", null, fact))));
}

/** @param {Answer} answer @param {Moment} moment */
function fixes(answer, moment) {
  if (!answer.fixes?.length) return null;
  return section("What would help", h("ol", { class: "fixes" }, answer.fixes.map((fix) => h("li", null,
    h("p", null, h("b", null, fix.change), " ", h("span", { class: "dim" }, `→ ${fix.node}`)),
    fix.removes?.length ? h("p", { class: "warn" }, `takes away ${fix.removes.join(", ")}`) : null,
    fix.commands?.length ? h("pre", null, fix.commands.join("\n")) : null,
    fix.try?.length && !saved() ? h("a", { class: "button", href: formatRoute("what-if", "", { ...moment, change: fix.try.join(BETWEEN) }), "aria-label": `Try it: ${fix.change}` }, "Try it") : null))));
}

/** Stacked bars of scores, the best first. @param {Score[]} found @param {Answer} answer @param {"light" | "dark"} theme @param {Moment} moment */
function scores(found, answer, theme, moment) {
  if (!found.length) return null;
  const chosen = answer.node;
  const plugins = Object.keys(found[0].plugins);
  const most = Math.max(...found.map((score) => score.total), 1);
  const key = h("p", { class: "legend" }, plugins.map((plugin, i) => {
    const swatch = h("i", { "aria-hidden": "true" });
    swatch.style.background = named(theme, i);
    return h("span", null, swatch, plugin);
  }));
  const rows = found.map((score) => {
    const bar = h("div", { class: "stack", role: "img", "aria-label": plugins.map((plugin) => `${plugin} ${score.plugins[plugin]}`).join(", ") },
      plugins.map((plugin, i) => {
        const part = h("i", { title: `${plugin} ${score.plugins[plugin]}` });
        part.style.width = `${(100 * (score.plugins[plugin] ?? 0)) / most}%`;
        part.style.background = named(theme, i);
        return part;
      }));
    return h("div", { class: "score" }, nodeLink(moment, score.node, score.node === chosen ? " ✓" : ""), bar, h("b", { class: "number" }, String(score.total)));
  });
  return section("Scores by plugin", key, ...rows, h("p", { class: "dim" }, runnerUp(found, chosen, answer.state === "bound")));
}
