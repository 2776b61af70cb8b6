// One place for all state. Views read it and are told, once per picture, that it changed.

/** @import { Cluster } from "./cluster.js" */
/** @import { Route } from "./router.js" */
/** @import { History, Rates } from "./history.js" */

/**
 * @typedef {object} State
 * @property {Route} route
 * @property {Cluster | null} cluster as it is now
 * @property {Cluster | null} shown as the address wants it: now, or at a moment of its past; null while that is loaded
 * @property {"loading" | "live" | "cut" | "lost" | "still" | "failed"} status cut: bayplan does not reach the cluster; lost: the page does not reach bayplan
 * @property {string} problem why loading failed
 * @property {number} since when what is shown was the present for the last time, while it is cut or lost
 * @property {number} skew how many seconds the server's clock is ahead of this one
 * @property {Rates} rates of what the stream brought
 * @property {Record<string, History>} histories by run
 * @property {"light" | "dark"} theme
 * @property {number} frame grows with every change of the cluster
 */

export class Store {
  /** @param {State} state @param {(work: () => void) => void} [later] */
  constructor(state, later = (work) => requestAnimationFrame(work)) {
    this.state = state;
    this.later = later;
    /** @type {Set<(state: State) => void>} */
    this.listeners = new Set();
    this.asked = false;
  }

  /** Change state; listeners are told with the next picture. @param {Partial<State>} patch */
  set(patch) {
    Object.assign(this.state, patch);
    if (this.asked) return;
    this.asked = true;
    this.later(() => {
      this.asked = false;
      for (const listener of this.listeners) listener(this.state);
    });
  }

  /** @param {(state: State) => void} listener @returns {() => void} stop */
  subscribe(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}
