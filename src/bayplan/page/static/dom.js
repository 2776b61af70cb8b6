// Makes elements. Text is always text: nothing of a user's objects is ever read as HTML.

import { plain } from "./units.js";

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
    item.append(child instanceof Node ? child : plain(String(child)));
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
 * Bring what an element holds up to date and leave alone what is the same, so that focus, a pressed
 * button and what was opened survive. For elements without listeners.
 * @param {Element} item
 * @param {...(Child | Child[])} children
 */
export function keep(item, ...children) {
  const fresh = document.createDocumentFragment();
  fill(fresh, children);
  settle(item, fresh);
}

/** @param {Element} item @param {Element | DocumentFragment} fresh */
function settle(item, fresh) {
  const wanted = [...fresh.childNodes];
  wanted.forEach((child, i) => {
    const old = item.childNodes[i];
    if (!old) item.append(child);
    else if (!old.isEqualNode(child)) resemble(old, child);
  });
  while (item.childNodes.length > wanted.length) item.lastChild?.remove();
}

/** Make a node like another. @param {ChildNode} old @param {ChildNode} fresh */
function resemble(old, fresh) {
  if (!(old instanceof HTMLElement && fresh instanceof HTMLElement && old.nodeName === fresh.nodeName)) {
    old.replaceWith(fresh);
    return;
  }
  const left = ["open", "style"]; // what a reader opened; styles by their own door, as the policy wants it
  for (const { name } of [...old.attributes]) if (!left.includes(name) && !fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (!left.includes(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  if (old.style.cssText !== fresh.style.cssText) old.style.cssText = fresh.style.cssText;
  settle(old, fresh);
}

/**
 * Set a text only if it differs, so that nothing is laid out in vain.
 * @param {Element} item
 * @param {string} text
 */
export function say(item, text) {
  const shown = plain(text);
  if (item.textContent !== shown) item.textContent = shown;
}

/** The heading that a reader is led to when a view opens; those who see know it from the tabs. @param {string} title */
export function heading(title) {
  return h("h1", { class: "hidden", tabindex: "-1" }, title);
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

/**
 * The same while an answer is awaited.
 * @param {string} title
 * @param {string} text
 */
export function busy(title, text) {
  return notice(title, text, h("div", { class: "busy", "aria-hidden": "true" }));
}
