// Sites of the global scheduler as a cluster: a site is a node, a group of an allocation on it is a pod.
//
// So the map, its colours, groups and keys are those of a cluster's page.

import { Cluster, CORDONED, READY } from "./cluster.js";

/** @typedef {{total: number, free: number}} Stock */
/**
 * @typedef {object} Site as GET /v1/sites tells it
 * @property {string} site_id
 * @property {string} region
 * @property {string} availability_zone
 * @property {string} status
 * @property {Record<string, {vcpus: Stock, memory: Stock}>} machines
 * @property {Record<string, Stock>} storage
 * @property {(Stock & {pool: string}) | null} eips
 */
/**
 * @typedef {object} Held an allocation as GET /v1/allocations tells it
 * @property {string} id
 * @property {string} state
 * @property {number} [priority]
 * @property {number} [expires]
 * @property {{name: string, resources: {name: string, flavor_id: string, count: number}[], selected: {node_id: string}}[]} resource_groups
 * @property {{at: number, what: string}[]} [history]
 */

const NODE = ["name", "labels", "cpu", "memory", "pods", "gpu", "flags", "taints", "conditions", "more", "created"];
const POD = ["name", "namespace", "node", "cpu", "memory", "gpu", "priority", "phase", "place", "owner", "labels", "created", "nominated", "flags", "message"];

/** @param {Site} site @param {"vcpus" | "memory"} what @returns {Stock} */
export function stock(site, what) {
  const found = { total: 0, free: 0 };
  for (const machine of Object.values(site.machines)) {
    found.total += machine[what].total;
    found.free += machine[what].free;
  }
  return found;
}

/** @param {Site[]} sites @param {Held[]} allocations @param {number} time */
export function clusterOf(sites, allocations, time) {
  const texts = [""];
  /** @type {Map<string, number>} */
  const numbers = new Map([["", 0]]);
  const number = (/** @type {string} */ text) => {
    const known = numbers.get(text);
    if (known !== undefined) return known;
    numbers.set(text, texts.length);
    return texts.push(text) - 1;
  };
  const slots = new Map(sites.map((site, slot) => [site.site_id, slot]));
  const nodes = table(NODE, sites.map((site) => ({
    name: site.site_id, labels: number(`region=${site.region},zone=${site.availability_zone}`),
    cpu: 1000 * stock(site, "vcpus").total, memory: stock(site, "memory").total, // in the inventory's own unit
    flags: site.status === "Normal" ? READY : site.status === "Drained" ? READY | CORDONED : 0,
  })));
  const groups = allocations.flatMap((held) => held.resource_groups.map((group) => ({ held, group })));
  const pods = table(POD, groups.map(({ held, group }) => ({
    name: held.id, namespace: number(group.name), node: (slots.get(group.selected.node_id) ?? -1) + 1,
    priority: held.priority ?? 0, phase: 0, owner: number(`Group/${group.name}`),
  })));
  const cluster = new Cluster({
    name: "sites", kind: "sites", live: true, runs: [], number: 0, epoch: 0, time, texts, nodes, pods,
    phases: ["held"], places: ["bound"], fields: [NODE, POD],
  });
  sites.forEach((site, slot) => { // what is free is told by the scheduler; other tenants' use is part of it
    const [vcpus, memory] = [stock(site, "vcpus"), stock(site, "memory")];
    cluster.used.cpu[slot] = 1000 * (vcpus.total - vcpus.free);
    cluster.used.memory[slot] = memory.total - memory.free;
  });
  return cluster;
}

/** @param {string[]} fields @param {Record<string, string | number>[]} rows */
function table(fields, rows) {
  /** @type {Record<string, any>} */
  const columns = {};
  for (const field of fields) {
    if (field === "name") columns.name = rows.map((row) => row.name).join("\n");
    else if (field !== "message") columns[field] = Float64Array.from(rows, (row) => Number(row[field] ?? 0));
  }
  return { count: rows.length, columns };
}

/**
 * The body of a request, from the fields of the form.
 * @param {{name: string, flavor: string, count: number, storage: string, addresses: boolean, replicas: number, strategy: string, regions: string, priority: number, preempt: boolean}} form
 */
export function requestOf({ name, flavor, count, storage, addresses, replicas, strategy, regions, priority, preempt }) {
  const flavors = listed(flavor).map((item) => ({ flavor_id: item }));
  const volumes = Object.fromEntries(listed(storage).map((item) => /^(.*?)\s*[\s=:]\s*(\d+)$/.exec(item)?.slice(1) ?? [item, ""]).map(([kind, size]) => [kind, size === "" ? size : Number(size)]));
  const resource = { name, flavors, count, ...(storage.trim() ? { storage: volumes } : {}), ...(addresses ? { need_eip: true } : {}) };
  const rank = { ...(priority ? { priority } : {}), ...(preempt ? { preempt } : {}) };
  const selector = { ...(regions.trim() ? { regions: listed(regions).map((region) => ({ region })) } : {}), strategy: { location_strategy: strategy } };
  return { allocation: { resource_group: { name, resources: [resource] }, selector, replicas, ...rank } };
}

/** @param {string} text */
function listed(text) {
  return text.split(",").map((item) => item.trim()).filter(Boolean);
}
