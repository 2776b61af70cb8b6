// Brings the cluster and its changes. In a saved report the data is in the page itself.

import { Cluster } from "./cluster.js";
import { History } from "./history.js";
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

/** Load the cluster, then follow it. @param {Store} store */
export async function start(store) {
  try {
    const body = saved() ? await part("cluster") : await (await answered("api/cluster")).arrayBuffer();
    const wire = unpack(/** @type {ArrayBuffer} */ (body));
    const cluster = new Cluster(wire);
    store.set({ cluster, status: wire.live && !saved() ? "live" : "still", problem: "", frame: store.state.frame + 1 });
    if (wire.live && !saved()) follow(store, cluster);
  } catch (problem) {
    store.set({ status: "failed", problem: /** @type {Error} */ (problem).message });
  }
}

/** @param {Store} store @param {Cluster} cluster */
function follow(store, cluster) {
  const events = new EventSource(`api/stream?after=${cluster.number}`);
  events.onmessage = (event) => {
    const frame = JSON.parse(event.data);
    if (frame.number <= cluster.number) return;
    cluster.follow(frame);
    store.state.histories[""]?.add(frame.time, frame.changes);
    store.set({ status: "live", frame: store.state.frame + 1 });
  };
  events.addEventListener("reset", () => {
    events.close();
    store.set({ histories: {} });
    start(store);
  });
  events.onopen = () => store.set({ status: "live" });
  events.onerror = () => {
    store.set({ status: "lost" });
    if (events.readyState === EventSource.CLOSED) setTimeout(() => start(store), 2000);
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

/** @param {Store} store @param {string} run */
async function load(store, run) {
  const body = saved() ? await part(`history ${run}`) : await (await answered(`api/history?run=${encodeURIComponent(run)}`)).arrayBuffer();
  if (!body) throw new Error("this report was saved without its history");
  const found = new History(unpack(body));
  store.set({ histories: { ...store.state.histories, [run]: found } });
  return found;
}

/** Runs whose history is not to be had. @type {Set<string>} */
const missing = new Set();

/**
 * The cluster that an address speaks of: of a run and a moment, or as it is now; null while its history is loaded.
 * @param {Store} store @param {Record<string, string>} query
 */
export function spokenOf(store, query) {
  const { cluster, histories } = store.state;
  const run = query.run ?? "";
  if ((!query.t && !run) || missing.has(run)) return cluster;
  const known = histories[run];
  if (!known) {
    history(store, run).catch(() => {
      missing.add(run);
      store.set({});
    });
    return null;
  }
  const found = known.at(query.t ? Number(query.t) : known.end);
  found.moment = { run, t: query.t };
  return found;
}

/** An answer that a report holds, or undefined. @param {string} key */
export async function kept(key) {
  const body = saved() ? await part("answers") : null;
  return body ? JSON.parse(new TextDecoder().decode(body))[key] : undefined;
}
