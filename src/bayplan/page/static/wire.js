// Reads the server's bytes: a line of JSON, and columns of numbers behind it.

/** @typedef {{type?: "u1" | "u2" | "u4" | "f8", at?: number, base: number, scale?: number}} Packed */

const TYPES = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f8: Float64Array };

/**
 * Read a cluster or a history.
 * @param {ArrayBuffer} body
 * @returns {any} the JSON, its columns as arrays
 */
export function unpack(body) {
  const end = new Uint8Array(body).indexOf(10) + 1;
  const wire = JSON.parse(new TextDecoder().decode(new Uint8Array(body, 0, end)));
  for (const table of [wire.nodes, wire.pods]) {
    for (const [field, column] of Object.entries(table.columns)) {
      if (field !== "name" && field !== "message") table.columns[field] = numbers(body, end, table.count, column);
    }
  }
  return wire;
}

/** @param {ArrayBuffer} body @param {number} from @param {number} count @param {Packed} packed */
function numbers(body, from, count, packed) {
  const found = new Float64Array(count);
  if (!packed.type) return packed.base ? found.fill(packed.base) : found;
  const values = new TYPES[packed.type](body, from + (packed.at ?? 0), count);
  const { base, scale = 1 } = packed;
  for (let i = 0; i < count; i++) found[i] = values[i] * scale + base;
  return found;
}
