// What part of the map is seen: a scale and an offset, and how pointers and keys move them.

/** @typedef {{scale: number, x: number, y: number}} View screen = world × scale + (x, y) */

const FAR = 0.5;
/** Most pixels a unit, for small worlds in a window. @param {number} width */
export function largest(width) {
  return Math.max(64, width / 36);
}

const NEAR = 130;

/**
 * The view that shows everything.
 * @param {{width: number, height: number}} world @param {number} width @param {number} height @param {number} [margin]
 * @returns {View}
 */
export function fit(world, width, height, margin = 16) {
  const room = { width: Math.max(width - 2 * margin, 10), height: Math.max(height - 2 * margin, 10) };
  const scale = Math.min(room.width / world.width, room.height / world.height, largest(width));
  return {
    scale,
    x: (width - world.width * scale) / 2,
    y: Math.max(margin, (height - world.height * scale) / 2),
  };
}

/** Zoom about a point of the screen. @param {View} view @param {number} factor @param {number} x @param {number} y @param {number} least @returns {View} */
export function zoom(view, factor, x, y, least) {
  const scale = Math.min(NEAR, Math.max(Math.min(least, FAR) * 0.8, view.scale * factor));
  const ratio = scale / view.scale;
  return { scale, x: x - (x - view.x) * ratio, y: y - (y - view.y) * ratio };
}

/** Where a world begins that is to lie there: no window is left half empty beside it. @param {number} at @param {number} world @param {number} room */
export function centred(at, world, room) {
  const [margin, near] = [16, 60];
  if (world + 2 * margin <= room) return (room - world) / 2;
  if (at > margin - near) return margin;
  return Math.max(room - margin - world, at);
}

/** Keep some of the world in sight. @param {View} view @param {{width: number, height: number}} world @param {number} width @param {number} height @returns {View} */
export function kept(view, world, width, height) {
  const edge = 60;
  return {
    scale: view.scale,
    x: Math.min(width - edge, Math.max(edge - world.width * view.scale, view.x)),
    y: Math.min(height - edge, Math.max(edge - world.height * view.scale, view.y)),
  };
}

/**
 * Let pointers, wheel and pinch move a view.
 * @param {HTMLElement} item
 * @param {{get: () => View, set: (view: View) => void, least: () => number, tap: (x: number, y: number, twice: boolean) => void, hover: (x: number, y: number) => void}} hooks
 */
export function steer(item, hooks) {
  /** @type {Map<number, {x: number, y: number}>} */
  const fingers = new Map();
  let moved = 0;
  const at = (/** @type {PointerEvent | WheelEvent | MouseEvent} */ event) => {
    const box = item.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  item.addEventListener("pointerdown", (event) => {
    item.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, at(event));
    moved = 0;
  });
  item.addEventListener("pointermove", (event) => {
    const now = at(event);
    const before = fingers.get(event.pointerId);
    if (!before) return hooks.hover(now.x, now.y);
    const view = hooks.get();
    if (fingers.size === 1) {
      hooks.set({ ...view, x: view.x + now.x - before.x, y: view.y + now.y - before.y });
    } else {
      const [other] = [...fingers].filter(([id]) => id !== event.pointerId).map(([, point]) => point);
      const factor = distance(now, other) / Math.max(distance(before, other), 1);
      hooks.set(zoom(view, factor, (now.x + other.x) / 2, (now.y + other.y) / 2, hooks.least()));
    }
    moved += Math.abs(now.x - before.x) + Math.abs(now.y - before.y);
    fingers.set(event.pointerId, now);
  });
  const up = (/** @type {PointerEvent} */ event) => {
    const known = fingers.delete(event.pointerId);
    const now = at(event);
    if (known && moved < 5 && event.type === "pointerup") hooks.tap(now.x, now.y, false);
  };
  item.addEventListener("pointerup", up);
  item.addEventListener("pointercancel", up);
  item.addEventListener("pointerleave", () => hooks.hover(-1, -1));
  item.addEventListener("dblclick", (event) => hooks.tap(at(event).x, at(event).y, true));
  item.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      const { x, y } = at(event);
      const lines = event.deltaMode === 1 ? 16 : 1;
      hooks.set(zoom(hooks.get(), Math.exp(-event.deltaY * lines * 0.0016), x, y, hooks.least()));
    },
    { passive: false },
  );
}

/** @param {{x: number, y: number}} a @param {{x: number, y: number}} b */
function distance(a, b) {
  return Math.hypot(a.x - b.x, a.y - b.y);
}
