// Brings the cluster and its changes. In a saved report the data is in the page itself.

import { Cluster } from "./cluster.js";
import { History } from "./history.js";
import { momentOf, timeOf } from "./moments.js";
import { unpack } from "./wire.js";

/** @import { Store } from "./store.js" */

/** Whether this page is a file that was saved. */
export function saved() {
  return document.querySelector("[data-part]") !== null;
}

/** A part of a report, unpacked. @param {string} name @returns {Promise<ArrayBuffer | null>} */
async function part(name) {
  const found = [...document.querySelectorAll("[data-part]")].find((item) => item.getAttribute("data-part") === name);
  if (!found) return null;
  const bytes = Uint8Array.from(atob(found.textContent ?? ""), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

/**
 * Ask the server; an Error carries its message.
 * @param {string} path
 * @param {RequestInit} [init]
 */
export async function ask(path, init) {
  return (await answered(path, init)).json();
}

/** @param {string} path @param {RequestInit} [init] @returns {Promise<Response>} */
async function answered(path, init) {
  let answer;
  try {
    answer = await fetch(path, init);
  } catch {
    throw new Error("the server does not answer; is bayplan still running?");
  }
  if (answer.ok) return answer;
  const text = await answer.text();
  let message = text;
  try {
    message = JSON.parse(text).error ?? text;
  } catch {
    // plain text
  }
  throw new Error(message.trim() || `the server answered ${answer.status}`);
}

const AGAIN = 2000;

/** Runs whose history is not to be had. @type {Set<string>} */
const missing = new Set();

/** Load the cluster, then follow it. @param {Store} store */
export async function start(store) {
  try {
    const body = saved() ? await part("cluster") : await (await answered("api/cluster")).arrayBuffer();
    const wire = unpack(/** @type {ArrayBuffer} */ (body));
    const cluster = new Cluster(wire);
    const live = wire.live && !saved();
    store.set({ cluster, status: live ? "live" : "still", problem: "", frame: store.state.frame + 1 });
    if (live) follow(store, cluster);
  } catch (problem) {
    const { message } = /** @type {Error} */ (problem);
    if (!store.state.cluster) store.set({ status: "failed", problem: message });
    else again(store, message); // what was there stays in sight
  }
}

/** The server is gone, or another one: try until it answers. @param {Store} store @param {string} problem */
function again(store, problem) {
  lost(store, problem);
  setTimeout(() => start(store), AGAIN);
}

/** @param {Store} store @param {string} [problem] */
function lost(store, problem = "") {
  const { status, since, skew } = store.state;
  store.set({ status: "lost", since: status === "lost" || status === "cut" ? since : Date.now() / 1000 + skew, problem });
}

/** Let the present be now: ages grow while nothing changes, and stand still while nothing is known. @param {Store} store */
export function tick(store) {
  const { cluster, status, skew, histories } = store.state;
  if (!cluster || status !== "live") return;
  cluster.time = Math.max(cluster.time, Date.now() / 1000 + skew);
  if (histories[""]) histories[""].end = Math.max(histories[""].end, cluster.time);
  store.set({});
}

/** @param {Store} store @param {Cluster} cluster */
function follow(store, cluster) {
  const events = new EventSource(`api/stream?after=${cluster.number}`);
  events.onmessage = (event) => {
    const frame = JSON.parse(event.data);
    if (frame.number <= cluster.number) return;
    store.state.rates.see(cluster, frame);
    cluster.follow(frame);
    store.state.histories[""]?.add(frame);
    missed?.push(frame);
    store.set({ frame: store.state.frame + 1 });
  };
  events.addEventListener("reach", (event) => {
    const { now, since } = JSON.parse(event.data);
    store.state.rates.begin(now);
    store.set({ status: since === null ? "live" : "cut", since: since ?? 0, skew: now - Date.now() / 1000 });
    if (since !== null) cluster.time = Math.max(cluster.time, since);
  });
  events.addEventListener("reset", () => {
    events.close();
    store.set({ histories: {} });
    missing.clear();
    start(store);
  });
  events.onerror = () => {
    if (events.readyState === EventSource.CLOSED) again(store, "");
    else lost(store);
  };
}

/** @type {Record<string, Promise<History> | undefined>} */
const asked = {};

/** Load the history of a run once. @param {Store} store @param {string} run */
export function history(store, run) {
  const known = store.state.histories[run];
  if (known) return Promise.resolve(known);
  asked[run] ??= load(store, run).finally(() => {
    asked[run] = undefined;
  });
  return asked[run];
}

/** What the stream brings while a history is on its way. @type {import("./cluster.js").Frame[] | null} */
let missed = null;

/** @param {Store} store @param {string} run */
async function load(store, run) {
  missed = [];
  const body = saved() ? await part(`history ${run}`) : await (await answered(`api/history?run=${encodeURIComponent(run)}`)).arrayBuffer();
  if (!body) throw new Error("this report was saved without its history");
  const found = new History(unpack(body));
  if (!run) for (const frame of missed ?? []) found.add(frame);
  missed = null;
  store.set({ histories: { ...store.state.histories, [run]: found } });
  return found;
}

/**
 * The cluster that an address speaks of: of a run and a moment, or as it is now; null while its history is loaded.
 * @param {Store} store @param {Record<string, string>} query
 */
export function spokenOf(store, query) {
  const { cluster, histories } = store.state;
  const run = query.run ?? "";
  if (!cluster || (!query.t && !run) || cluster.about.kind === "snapshot" || missing.has(run)) return cluster;
  const known = histories[run];
  if (!known) {
    history(store, run).catch(() => {
      missing.add(run);
      store.set({});
    });
    return null;
  }
  const time = timeOf(known, query.t, cluster.about.wall);
  if (time === undefined && !run) return cluster;
  const found = known.at(time ?? known.end);
  found.moment = momentOf(query);
  return found;
}

/** An answer that a report holds, or undefined. @param {string} key */
export async function kept(key) {
  const body = saved() ? await part("answers") : null;
  return body ? JSON.parse(new TextDecoder().decode(body))[key] : undefined;
}
