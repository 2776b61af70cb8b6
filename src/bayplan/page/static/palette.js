// Colours. Amounts get one quiet ramp, names get separate hues; both have a light and a dark set.

/** @typedef {"light" | "dark"} Theme */

const RAMP = {
  light: ["#edf1f5", "#d3e3ee", "#b3d2e4", "#8dbdd6", "#66a4c5", "#448ab1", "#2d7199", "#1e597d"],
  dark: ["#20262e", "#22343f", "#244554", "#27586b", "#2f6e85", "#3d88a1", "#57a5bd", "#82c5d8"],
};
const OVER = { light: "#b4532a", dark: "#e08a5b" };

const NAMED = {
  light: ["#4c87b9", "#d08b3e", "#57a078", "#9a7ab8", "#c26a85", "#55a5a8", "#a68d4f", "#7387a8", "#b0705a", "#86a04f", "#b87fae", "#5f7fc0"],
  dark: ["#5f9fd6", "#dba15b", "#6cba90", "#b394d3", "#d98aa3", "#6bbec2", "#c2aa6a", "#8ea3c6", "#cf8d76", "#a0bb67", "#cf9ac6", "#7d9be0"],
};

const INK = {
  light: {
    line: "#d6dce3", text: "#1c2630", dim: "#66727f",
    empty: "#edf1f5", bad: "#c0392b", warn: "#c47f17", accent: "#1f6f9f",
    cell: "#ffffff", shade: "rgba(28,38,48,.10)",
  },
  dark: {
    line: "#323a45", text: "#e3e8ee", dim: "#93a0ae",
    empty: "#20262e", bad: "#ef6f62", warn: "#e0a84a", accent: "#6cb6df",
    cell: "#1b2129", shade: "rgba(255,255,255,.09)",
  },
};

/** @param {Theme} theme */
export function ink(theme) {
  return INK[theme];
}

export const STEPS = RAMP.light.length + 1;

/** The step of the ramp for a share: 0 for none, the last for more than there is. @param {number} share */
export function step(share) {
  if (!(share > 0)) return 0;
  if (share > 1.0001) return STEPS - 1;
  return Math.min(STEPS - 2, 1 + Math.floor(share * (STEPS - 2) - 1e-9));
}

/** @param {Theme} theme @param {number} at */
export function ramp(theme, at) {
  return at >= STEPS - 1 ? OVER[theme] : RAMP[theme][at];
}

/** @param {Theme} theme @param {number} at */
export function named(theme, at) {
  return NAMED[theme][at % NAMED[theme].length];
}

export const NAMES = NAMED.light.length;

/** A stable number for a text. @param {string} text */
export function hash(text) {
  let sum = 2166136261;
  for (let i = 0; i < text.length; i++) sum = Math.imul(sum ^ text.charCodeAt(i), 16777619);
  return (sum ^ (sum >>> 13)) >>> 0;
}
