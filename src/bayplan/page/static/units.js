// Numbers as Kubernetes writes them.

const BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];

/** Milli-cpu, exactly: 250m, 3960m, 64. @param {number} milli */
export function cpu(milli) {
  return milli % 1000 ? `${Math.round(milli)}m` : String(milli / 1000);
}

/** Bytes: 512Mi, 1.5Gi; never more than there is, so that almost all is not all. @param {number} bytes */
export function memory(bytes) {
  let value = Math.abs(bytes);
  let unit = 0;
  while (value >= 1024 && unit < BINARY.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${bytes < 0 ? "-" : ""}${short(value)}${BINARY[unit]}`;
}

/** @param {number} value */
function short(value) {
  const parts = value >= 100 ? 1 : 10;
  return String(Math.floor(value * parts + 1e-9) / parts);
}

/** A text without marks that turn letters round: what is read is what is there. @param {string} text */
export function plain(text) {
  return text.replace(/[\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
}

/** 12,345 @param {number} value */
export function count(value) {
  return Math.round(value).toLocaleString("en-US");
}

/** 1 node, 12,345 nodes @param {number} value @param {string} word */
export function some(value, word) {
  return `${count(value)} ${word}${value === 1 ? "" : "s"}`;
}

/** A share in whole percent; a trace is not nothing, almost all is not all, and of nothing there is no share. @param {number} part @param {number} whole */
export function percent(part, whole) {
  if (!whole || !Number.isFinite(part)) return "–";
  const share = (100 * part) / whole;
  if (share > 0 && share < 1) return "<1%";
  if (share > 99 && share < 100) return "99%";
  if (share > 100 && share < 101) return ">100%";
  return `${Math.round(share)}%`;
}

/** As kubectl tells ages: 45s, 12m, 3h20m, 5d. @param {number} seconds */
export function age(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  if (s < 120) return `${s}s`;
  const m = Math.floor(s / 60);
  if (m < 10 && s % 60) return `${m}m${s % 60}s`;
  if (m < 180) return `${m}m`;
  const hours = Math.floor(m / 60);
  if (hours < 8 && m % 60) return `${hours}h${m % 60}m`;
  if (hours < 48) return `${hours}h`;
  const d = Math.floor(hours / 24);
  return d < 730 ? `${d}d` : `${Math.floor(d / 365)}y`;
}

/** A moment of a run: 0.5s, 1m05s, 2h03m. @param {number} seconds */
export function elapsed(seconds) {
  if (seconds < 60) return `${Number(seconds.toFixed(seconds < 10 ? 2 : 1))}s`;
  const s = Math.round(seconds);
  if (s < 3600) return `${Math.floor(s / 60)}m${String(s % 60).padStart(2, "0")}s`;
  return `${Math.floor(s / 3600)}h${String(Math.floor(s / 60) % 60).padStart(2, "0")}m`;
}

/** A time of day. @param {number} seconds since the epoch */
export function clock(seconds) {
  return new Date(seconds * 1000).toLocaleTimeString("en-GB");
}
