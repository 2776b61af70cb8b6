// The timeline: arrivals, bindings and evictions as bars, pending as an area, utilisation as lines.

import { ink, named } from "./palette.js";
import { clock, elapsed, percent, count } from "./units.js";

/** @import { Series } from "./history.js" */
/** @import { Theme } from "./palette.js" */

export const LANES = /** @type {const} */ ([
  { key: "arrivals", title: "arrived", colour: 0, kind: "bar" },
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
function timeX(series, time, width) {
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
    const scale = Math.max(1, most);
    c.fillStyle = colours.dim;
    c.textBaseline = "middle";
    c.textAlign = "left";
    c.fillText(lane.title, 4, top + tall / 2 - (tall > 26 ? 6 : 0));
    if (tall > 26) {
      c.fillText(lane.kind === "line" ? `to ${percent(most, 1)}` : `to ${count(most)}`, 4, top + tall / 2 + 7);
    }
    if (other) shape(c, other, lane, top, tall, scale, width, theme, 0.3);
    shape(c, series, lane, top, tall, scale, width, theme, 1);
  });
  const x = timeX(series, moment, width);
  c.strokeStyle = colours.text;
  c.lineWidth = 1.5;
  c.beginPath();
  c.moveTo(x, 0);
  c.lineTo(x, height - FOOT);
  c.stroke();
  c.fillStyle = colours.text;
  c.beginPath();
  c.moveTo(x - 5, 0);
  c.lineTo(x + 5, 0);
  c.lineTo(x, 7);
  c.fill();
}

/** @param {Float64Array} values */
function peak(values) {
  let most = 0;
  for (const value of values) if (value > most) most = value;
  return most;
}

const STEPS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400];

/** Round moments to write below a timeline, few enough for its width; clock times are round by the clock. @param {number} start @param {number} end @param {number} width @param {boolean} wall */
export function ticks(start, end, width, wall) {
  const most = Math.max(2, Math.floor((width - LEFT - RIGHT) / 92));
  const step = STEPS.find((size) => (end - start) / size <= most) ?? 86_400 * Math.ceil((end - start) / 86_400 / most);
  const from = wall ? Math.ceil(start / step - 1e-6) * step - start : 0;
  const found = [];
  for (let at = from; at <= end - start + step * 1e-6; at += step) found.push({ time: start + at, label: wall ? told(start + at, step) : elapsed(Number(at.toFixed(3))) });
  return found;
}

/** @param {number} time @param {number} step */
function told(time, step) {
  if (step >= 1) return clock(Math.round(time));
  const digits = step >= 0.1 ? 1 : step >= 0.01 ? 2 : 3;
  const whole = Math.floor(time + 1e-6);
  return clock(whole) + Math.abs(time - whole).toFixed(digits).slice(1);
}

/** @param {CanvasRenderingContext2D} c @param {Series} series @param {number} width @param {number} height @param {Theme} theme @param {boolean} wall */
function axis(c, series, width, height, theme, wall) {
  const colours = ink(theme);
  c.strokeStyle = colours.line;
  c.lineWidth = 1;
  c.fillStyle = colours.dim;
  c.textBaseline = "bottom";
  for (const { time, label } of ticks(series.start, series.end, width, wall)) {
    const x = Math.round(timeX(series, time, width)) + 0.5;
    c.beginPath();
    c.moveTo(x, 2);
    c.lineTo(x, height - FOOT);
    c.stroke();
    const half = c.measureText(label).width / 2;
    c.textAlign = x + half > width ? "right" : x - half < LEFT ? "left" : "center";
    c.fillText(label, x + half > width ? width : x, height - 2);
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
