// The timeline: arrivals, bindings and evictions as bars, pending as an area, utilisation as lines.

import { ink, named } from "./palette.js";
import { clock, elapsed, percent, count } from "./units.js";

/** @import { Series } from "./history.js" */
/** @import { Theme } from "./palette.js" */

export const LANES = /** @type {const} */ ([
  { key: "arrivals", title: "arrive", colour: 0, kind: "bar" },
  { key: "bindings", title: "bound", colour: 2, kind: "bar" },
  { key: "evictions", title: "evicted", colour: 4, kind: "bar" },
  { key: "pending", title: "pending", colour: 1, kind: "area" },
  { key: "cpu", title: "cpu", colour: 0, kind: "line" },
  { key: "memory", title: "memory", colour: 3, kind: "line" },
]);
const LEFT = 62;
const RIGHT = 12;
const FOOT = 18;
const FONT = "system-ui, sans-serif";

/** Where a moment is, in pixels. @param {Series} series @param {number} time @param {number} width */
export function timeX(series, time, width) {
  const span = Math.max(series.end - series.start, 1e-9);
  return LEFT + ((time - series.start) / span) * (width - LEFT - RIGHT);
}

/** The moment at a pixel. @param {Series} series @param {number} x @param {number} width */
export function timeAt(series, x, width) {
  const share = (x - LEFT) / Math.max(width - LEFT - RIGHT, 1);
  return series.start + Math.min(1, Math.max(0, share)) * (series.end - series.start);
}

/**
 * Draw a timeline, with a second one behind it to compare.
 * @param {CanvasRenderingContext2D} c @param {Series} series @param {Series | null} other
 * @param {{width: number, height: number, theme: Theme, moment: number, wall: boolean}} options
 */
export function timeline(c, series, other, { width, height, theme, moment, wall }) {
  const colours = ink(theme);
  c.clearRect(0, 0, width, height);
  c.font = `11px ${FONT}`;
  const rows = LANES.length;
  const tall = (height - FOOT) / rows;
  axis(c, series, width, height, theme, wall);
  LANES.forEach((lane, i) => {
    const top = i * tall;
    const most = Math.max(peak(series[lane.key]), other ? peak(other[lane.key]) : 0);
    const scale = lane.kind === "line" ? Math.max(1, most) : Math.max(1, most);
    c.fillStyle = colours.dim;
    c.textBaseline = "middle";
    c.textAlign = "left";
    c.fillText(lane.title, 4, top + tall / 2 - (tall > 26 ? 6 : 0));
    if (tall > 26) {
      c.globalAlpha = 0.75;
      c.fillText(lane.kind === "line" ? `to ${percent(most, 1)}` : `to ${count(most)}`, 4, top + tall / 2 + 7);
      c.globalAlpha = 1;
    }
    if (other) shape(c, other, lane, top, tall, scale, width, theme, 0.3);
    shape(c, series, lane, top, tall, scale, width, theme, 1);
  });
  const x = timeX(series, moment, width);
  c.strokeStyle = colours.text;
  c.lineWidth = 1.5;
  c.beginPath();
  c.moveTo(x, 0);
  c.lineTo(x, height - FOOT + 4);
  c.stroke();
  c.fillStyle = colours.text;
  c.beginPath();
  c.arc(x, height - FOOT + 4, 4.5, 0, 7);
  c.fill();
}

/** @param {Float64Array} values */
function peak(values) {
  let most = 0;
  for (const value of values) if (value > most) most = value;
  return most;
}

/** @param {CanvasRenderingContext2D} c @param {Series} series @param {number} width @param {number} height @param {Theme} theme @param {boolean} wall */
function axis(c, series, width, height, theme, wall) {
  const colours = ink(theme);
  const marks = width < 600 ? 3 : 8;
  c.strokeStyle = colours.line;
  c.lineWidth = 1;
  c.fillStyle = colours.dim;
  c.textBaseline = "bottom";
  for (let i = 0; i <= marks; i++) {
    const time = series.start + ((series.end - series.start) * i) / marks;
    const x = Math.round(timeX(series, time, width)) + 0.5;
    c.beginPath();
    c.moveTo(x, 2);
    c.lineTo(x, height - FOOT);
    c.stroke();
    c.textAlign = i === marks ? "right" : i ? "center" : "left";
    c.fillText(wall ? clock(time) : elapsed(time - series.start), x, height - 2);
  }
}

/**
 * @param {CanvasRenderingContext2D} c @param {Series} series @param {typeof LANES[number]} lane
 * @param {number} top @param {number} tall @param {number} scale @param {number} width @param {Theme} theme @param {number} alpha
 */
function shape(c, series, lane, top, tall, scale, width, theme, alpha) {
  const values = series[lane.key];
  const base = top + tall - 2;
  const room = tall - 5;
  const wide = (width - LEFT - RIGHT) / values.length;
  const y = (/** @type {number} */ value) => base - (value / scale) * room;
  c.globalAlpha = alpha;
  c.fillStyle = c.strokeStyle = named(theme, lane.colour);
  if (lane.kind === "bar") {
    for (let i = 0; i < values.length; i++) {
      if (values[i]) c.fillRect(LEFT + i * wide, Math.min(y(values[i]), base - 1.5), Math.max(wide - 0.5, 1), Math.max(base - y(values[i]), 1.5));
    }
  } else {
    c.beginPath();
    c.moveTo(LEFT, lane.kind === "area" ? base : y(values[0]));
    for (let i = 0; i < values.length; i++) {
      c.lineTo(LEFT + i * wide, y(values[i]));
      c.lineTo(LEFT + (i + 1) * wide, y(values[i]));
    }
    if (lane.kind === "area") {
      c.lineTo(width - RIGHT, base);
      c.globalAlpha = alpha * 0.75;
      c.fill();
    } else {
      c.lineWidth = 1.6;
      c.stroke();
    }
  }
  c.globalAlpha = 1;
}
