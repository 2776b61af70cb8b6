// Makes elements. Text is always text: nothing of a user's objects is ever read as HTML.

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * Make an element: properties by name, `on…` as listeners, `data-`/`aria-`/`role` as attributes.
 * @param {string} tag
 * @param {Record<string, unknown> | null} [props]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElement}
 */
export function h(tag, props, ...children) {
  const item = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) {
      item.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    } else if (name === "class") {
      item.className = String(value);
    } else if (name in item && !name.includes("-") && name !== "list" && name !== "role") {
      /** @type {any} */ (item)[name] = value;
    } else {
      item.setAttribute(name, value === true ? "" : String(value));
    }
  }
  fill(item, children);
  return item;
}

/**
 * Put children into an element after what is there.
 * @param {Element | DocumentFragment} item
 * @param {(Child | Child[])[]} children
 */
export function fill(item, children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    item.append(child instanceof Node ? child : String(child));
  }
}

/**
 * Replace what an element holds.
 * @param {Element} item
 * @param {...(Child | Child[])} children
 */
export function put(item, ...children) {
  item.replaceChildren();
  fill(item, children);
}

/**
 * Set a text only if it differs, so that nothing is laid out in vain.
 * @param {Element} item
 * @param {string} text
 */
export function say(item, text) {
  if (item.textContent !== text) item.textContent = text;
}

/**
 * A centred message for a view that has nothing (yet) to show.
 * @param {string} title
 * @param {string} text
 * @param {...Child} more
 */
export function notice(title, text, ...more) {
  return h("div", { class: "notice", role: "status" }, h("h2", null, title), h("p", null, text), ...more);
}
