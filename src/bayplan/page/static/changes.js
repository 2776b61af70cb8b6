// Changes of a what-if as a reader says them: addresses and commands have them whole.

const MOST = 60;

/** One change in a few words. @param {string} change */
export function titled(change) {
  const cut = change.indexOf("=");
  const [verb, value] = [change.slice(0, cut), change.slice(cut + 1)];
  const said = verb === "patch" ? patch(value) : verb === "apply" ? manifests(value) : value;
  const line = `${verb} ${said}`.replace(/\s+/g, " ").trim();
  return line.length > MOST ? `${line.slice(0, MOST - 1)}…` : line;
}

/** node/a=[{"op": "add", "path": "/metadata/labels/disk", "value": "ssd"}] → node/a: labels/disk = ssd @param {string} value */
function patch(value) {
  const cut = value.indexOf("=");
  try {
    /** @type {{op: string, path: string, value?: unknown}[]} */
    const ops = JSON.parse(value.slice(cut + 1));
    const parts = ops.map(({ op, path, value: to }) => {
      const where = path.replace(/^\/(metadata|spec)\//, "").replaceAll("~1", "/").replaceAll("~0", "~");
      return op === "remove" ? `no ${where}` : `${where} = ${typeof to === "string" ? to : JSON.stringify(to)}`;
    });
    return `${value.slice(0, cut)}: ${parts.join(", ")}`;
  } catch {
    return value; // written by hand, and refused by the server in its own words
  }
}

/** Kinds and names of manifests. @param {string} text */
function manifests(text) {
  const found = text.split(/^---$/m).map((document) => {
    const kind = /\bkind"?: *"?(\w+)/.exec(document)?.[1] ?? "";
    const name = /\bname"?: *"?([\w.-]+)/.exec(document.slice(document.search(/\bmetadata"?:/)))?.[1] ?? "";
    return kind && name ? `${kind} ${name}` : "";
  });
  return found.filter(Boolean).join(", ") || "manifests";
}
