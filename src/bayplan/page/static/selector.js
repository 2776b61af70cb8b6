// Label selectors as kubectl's -l takes them: a=b, a!=b, a in (b,c), a notin (b,c), a, !a.

/** @typedef {{key: string, operator: "in" | "notin" | "exists" | "!", values: string[]}} Requirement */

const PART = /^\s*(?:(!)\s*([^\s=!,()]+)|([^\s=!,()]+)\s*(?:(==?|!=)\s*([^\s,()]*)|\s(in|notin)\s*\(([^)]*)\))?)\s*$/;

/**
 * Read a selector; throws an Error that names the part which is wrong.
 * @param {string} text
 * @returns {Requirement[]}
 */
export function parse(text) {
  return parts(text).map((part) => {
    const found = PART.exec(part);
    if (!found) throw new Error(`“${part.trim()}” is not a label requirement; try app=web or zone in (a,b)`);
    const [, not, absent, key, sign, value, word, list] = found;
    if (not) return { key: absent, operator: "!", values: [] };
    if (sign) return { key, operator: sign === "!=" ? "notin" : "in", values: [value] };
    if (word) {
      const values = list.split(",").map((item) => item.trim());
      return { key, operator: word === "in" ? "in" : "notin", values };
    }
    return { key, operator: "exists", values: [] };
  });
}

/** Cut at commas outside parentheses. @param {string} text */
function parts(text) {
  const found = [];
  let depth = 0;
  let from = 0;
  for (let i = 0; i <= text.length; i++) {
    const letter = text[i];
    if (letter === "(") depth++;
    else if (letter === ")") depth--;
    else if (letter === undefined || (letter === "," && depth === 0)) {
      if (text.slice(from, i).trim()) found.push(text.slice(from, i));
      from = i + 1;
    }
  }
  return found;
}

/**
 * Whether labels meet all requirements.
 * @param {Requirement[]} requirements
 * @param {Map<string, string>} labels
 */
export function matches(requirements, labels) {
  return requirements.every(({ key, operator, values }) => {
    const value = labels.get(key);
    switch (operator) {
      case "in":
        return value !== undefined && values.includes(value);
      case "notin":
        return value === undefined || !values.includes(value);
      case "exists":
        return value !== undefined;
      default:
        return value === undefined;
    }
  });
}
