// What every map is grouped and coloured by: two selects, and the key to colours and marks.

import { CORDONED, GHOST, READY } from "./cluster.js";
import { COLOURS } from "./colouring.js";
import { h, put } from "./dom.js";
import { groupKeys } from "./groups.js";
import { count, some } from "./units.js";

/** @import { Cluster } from "./cluster.js" */
/** @import { Colouring, Key } from "./colouring.js" */

const ZONE = "topology.kubernetes.io/zone";
const MOST_KEYS = 14;

export class MapControls {
  /** @param {(change: Record<string, string | undefined>) => void} go to an address with changes @param {[string, string][]} [colours] what can be coloured by */
  constructor(go, colours = COLOURS) {
    this.colours = colours;
    this.group = /** @type {HTMLSelectElement} */ (h("select", { onchange: () => go({ group: this.group.value || "-" }) }));
    this.colour = /** @type {HTMLSelectElement} */ (h("select", { onchange: () => go({ colour: this.colour.value }) },
      colours.map(([value, label]) => h("option", { value }, label))));
    this.labels = [h("label", null, "Group ", this.group), h("label", null, "Colour ", this.colour)];
    this.legend = h("div", { class: "legend", role: "group", "aria-label": "Key" });
    this.offered = this.told = "?";
  }

  /** Bring the selects up to date. @param {Cluster} cluster @param {Record<string, string>} query @returns {{group: string, colour: string}} */
  choices(cluster, query) {
    const keys = groupKeys(cluster);
    const group = query.group === "-" ? "" : query.group || (keys.includes(ZONE) ? ZONE : "");
    const options = group && !keys.includes(group) ? [group, ...keys] : keys;
    if (options.join() !== this.offered) {
      this.offered = options.join();
      put(this.group, h("option", { value: "" }, "nothing"), options.map((key) => h("option", { value: key }, key.replace("topology.kubernetes.io/", ""))));
    }
    const colour = this.colours.some(([name]) => name === query.colour) ? query.colour : "cpu";
    this.group.value = group;
    this.colour.value = colour;
    return { group, colour };
  }

  /** @param {Cluster} cluster @param {Colouring} colouring */
  key(cluster, colouring) {
    const found = marks(cluster);
    const told = JSON.stringify([colouring.keys, found]);
    if (this.told === told) return;
    this.told = told;
    const keys = colouring.keys.filter((key) => !colouring.amounts || key.label !== "over 100%" || key.nodes);
    put(this.legend,
      found.map(([kind, label, nodes]) => h("span", { class: "mark", title: `${label}: ${some(nodes, "node")}` },
        h("i", { class: kind, "aria-hidden": "true" }), label, h("span", { class: "dim" }, ` ${count(nodes)}`))),
      colouring.amounts ? ramp(keys) : h("span", { class: "names" }, keys.slice(0, MOST_KEYS).map((key) =>
        h("span", { title: said(key) }, swatch(key), h("span", { class: "key" }, key.label), h("span", { class: "dim" }, ` ${count(key.nodes)}`)))));
  }
}

/** @param {Key} key */
function said(key) {
  return `${key.label}: ${some(key.nodes, "node")}`;
}

/** @param {Key} key */
function swatch(key) {
  const found = h("i", { title: said(key), "aria-hidden": "true" });
  found.style.background = key.colour;
  return found;
}

/** Colours of amounts beside each other, with the ends and the middle named. @param {Key[]} keys */
function ramp(keys) {
  const over = keys.find((key) => key.label === "over 100%");
  const scale = keys.filter((key) => key !== over);
  return h("span", { class: "ramp" },
    h("span", { class: "scale", role: "img", "aria-label": keys.map(said).join(", ") }, h("span", { class: "steps" }, scale.map(swatch)),
      h("span", { class: "ends" }, ["0", "50%", "100%"].map((text) => h("span", null, text)))),
    over ? h("span", { class: "over-key", title: said(over) }, swatch(over), over.label, h("span", { class: "dim" }, ` ${count(over.nodes)}`)) : null);
}

/** Marks that nodes have beside their colour: class, label, how many. @param {Cluster} cluster @returns {[string, string, number][]} */
function marks(cluster) {
  const { name, columns, count: all } = cluster.nodes;
  let [absent, broken, cordoned] = [0, 0, 0];
  for (let slot = 0; slot < all; slot++) {
    if (!name[slot]) continue;
    const flags = columns.flags[slot];
    if (flags & GHOST) absent++;
    else if (!(flags & READY)) broken++;
    else if (flags & CORDONED) cordoned++;
  }
  /** @type {[string, string, number][]} */
  const found = [["broken", "not in the cluster", absent], ["broken", "not ready", broken], ["cordoned", "cordoned", cordoned]];
  return found.filter(([, , nodes]) => nodes);
}
