// Addresses of views: #/map?group=zone&colour=cpu. They can be bookmarked and shared.

/** @typedef {{view: string, path: string, query: Record<string, string>}} Route */

/** Between changes in an address: a configuration has lines of its own. */
export const BETWEEN = "\n\n";

const VIEWS = ["map", "queue", "pod", "what-if", "time"];

/** @param {string} hash @returns {Route} */
export function parseRoute(hash) {
  const [path, query] = split(hash.replace(/^#\/?/, ""), "?");
  const [view, rest] = split(path, "/");
  return {
    view: VIEWS.includes(view) ? view : "map",
    path: decoded(rest),
    query: Object.fromEntries(new URLSearchParams(query)),
  };
}

/** What was typed by hand may be no code at all; then it is taken as it is. @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** @param {string} view @param {string} [path] @param {Record<string, string | undefined>} [query] */
export function formatRoute(view, path = "", query = {}) {
  const kept = Object.entries(query).filter(([, value]) => value);
  const words = new URLSearchParams(/** @type {[string, string][]} */ (kept)).toString();
  const tail = path ? `/${encodeURIComponent(path).replaceAll("%2F", "/")}` : "";
  return `#/${view}${tail}${words ? `?${words}` : ""}`;
}

/** @param {string} text @param {string} at @returns {[string, string]} */
function split(text, at) {
  const cut = text.indexOf(at);
  return cut < 0 ? [text, ""] : [text.slice(0, cut), text.slice(cut + 1)];
}
