// Follows the stream of the global scheduler: all sites and allocations, then what changes.

/** @import { Held, Site } from "./sites.js" */

const SILENCE = 30_000;
const [FIRST, LAST] = [1000, 10_000];

export class SitesFeed {
  /**
   * @param {() => Record<string, string>} headers
   * @param {(problem: string) => void} told after every piece; with why there is none
   */
  constructor(headers, told) {
    this.headers = headers;
    this.told = told;
    /** @type {Site[]} */
    this.sites = [];
    /** @type {Map<string, number>} */
    this.slots = new Map();
    /** @type {Map<string, Held>} */
    this.held = new Map();
    /** All allocations, also those that are not listed here. */
    this.all = 0;
    /** How many sites there will be. */
    this.expected = 0;
    this.live = false;
    this.ending = new AbortController();
  }

  /** Begin anew, with other headers. */
  restart() {
    this.ending.abort();
  }

  async run() {
    for (let pause = FIRST; ; pause = Math.min(2 * pause, LAST)) {
      this.ending = new AbortController();
      try {
        await this.read(() => { pause = FIRST; });
      } catch (problem) {
        this.live = false;
        this.told(/** @type {Error} */ (problem).message || "the connection ended");
      }
      const again = this.ending.signal.aborted ? 0 : pause;
      await new Promise((done) => setTimeout(done, again));
    }
  }

  /** @param {() => void} came */
  async read(came) {
    const { signal } = this.ending;
    const found = await fetch("v1/stream", { headers: this.headers(), signal });
    if (!found.ok || !found.body) throw new Error((await found.json().catch(() => null))?.error_message ?? `the server answered ${found.status}`);
    const reader = found.body.pipeThrough(new TextDecoderStream()).getReader();
    const late = () => setTimeout(() => this.ending.abort(), SILENCE);
    let timer = late();
    try {
      for (let rest = ""; ;) {
        const { done, value } = await reader.read();
        if (done) throw new Error("the server ended the stream");
        clearTimeout(timer);
        timer = late();
        const lines = (rest + value).split("\n");
        rest = lines.pop() ?? "";
        for (const line of lines) this.take(JSON.parse(line));
        came();
        if (lines.length) this.told("");
      }
    } finally {
      clearTimeout(timer);
    }
  }

  /** @param {any} line */
  take(line) {
    if (line.begin) {
      [this.sites, this.slots, this.held, this.live] = [[], new Map(), new Map(), false];
      [this.expected, this.all] = [line.begin.sites, line.begin.allocations];
    }
    for (const site of /** @type {Site[]} */ (line.sites ?? [])) {
      const slot = this.slots.get(site.site_id) ?? this.sites.length;
      this.slots.set(site.site_id, slot);
      this.sites[slot] = site;
    }
    for (const held of /** @type {Held[]} */ (line.allocations ?? [])) {
      if (this.live && !this.held.has(held.id)) this.all++;
      this.held.set(held.id, held);
    }
    for (const id of /** @type {string[]} */ (line.gone ?? [])) {
      if (this.held.delete(id)) this.all--;
    }
    if (line.eips) for (const { eips } of this.sites) if (eips) eips.free = line.eips[eips.pool] ?? eips.free;
    if (line.live) this.live = true;
  }
}
