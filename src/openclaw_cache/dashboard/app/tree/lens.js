// What part of a drawing is seen: moved by drag, wheel, pinch and keys.

const LEAST = 0.05;
const MOST = 4;
const READABLE = 0.7;
const EDGE = 24;
const CLICK_PX = 4;

export class Lens {
  constructor(host, onChange) {
    this.host = host;
    this.onChange = onChange;
    this.view = { x: EDGE, y: EDGE, zoom: 1 };
    this.pointers = new Map();
    this.hasMoved = false;
    this.controller = new AbortController();
    const options = { signal: this.controller.signal };
    host.addEventListener("wheel", (event) => this.#onWheel(event), { ...options, passive: false });
    host.addEventListener("pointerdown", (event) => this.#onDown(event), options);
    host.addEventListener("pointermove", (event) => this.#onMove(event), options);
    for (const name of ["pointerup", "pointercancel"]) {
      host.addEventListener(name, (event) => this.pointers.delete(event.pointerId), options);
    }
  }

  close() {
    this.controller.abort();
  }

  /** All of a width and height, but never so small that nothing can be read: then its beginning. */
  fit(width, height) {
    const { clientWidth, clientHeight } = this.host;
    const whole = Math.min((clientWidth - 2 * EDGE) / width, (clientHeight - 2 * EDGE) / height);
    this.#set(EDGE, EDGE, Math.max(READABLE, Math.min(1.5, whole)));
  }

  zoomBy(factor, x = this.host.clientWidth / 2, y = this.host.clientHeight / 2) {
    const { view } = this;
    const zoom = Math.max(LEAST, Math.min(MOST, view.zoom * factor));
    const ratio = zoom / view.zoom;
    this.#set(x - (x - view.x) * ratio, y - (y - view.y) * ratio, zoom);
  }

  /** Move by so much of the drawing, or (`isScreen`) of the screen. */
  shift(dx, dy, isScreen = false) {
    if (!dx && !dy) return;
    const scale = isScreen ? 1 : this.view.zoom;
    this.#set(this.view.x + dx * scale, this.view.y + dy * scale, this.view.zoom);
  }

  /** Move no further than it takes to see a box of the drawing. */
  reveal(x, y, width, height) {
    const { view, host } = this;
    const inside = (at, size, most, shift) => {
      const from = at * view.zoom + shift;
      const to = from + size * view.zoom;
      if (from < EDGE) return shift + EDGE - from;
      return to > most - EDGE ? shift - Math.min(to - most + EDGE, from - EDGE) : shift;
    };
    const right = inside(x, width, host.clientWidth, view.x);
    this.#set(right, inside(y, height + 16, host.clientHeight, view.y), view.zoom);
  }

  #set(x, y, zoom) {
    this.view = { x, y, zoom };
    this.onChange(this.view);
  }

  #onWheel(event) {
    event.preventDefault();
    const { left, top } = this.host.getBoundingClientRect();
    const lines = event.deltaMode === 1 ? 16 : 1;
    if (event.shiftKey) this.shift(-(event.deltaX || event.deltaY) * lines, 0, true);
    else this.zoomBy(Math.exp(-event.deltaY * lines * 0.0015), event.clientX - left, event.clientY - top);
  }

  #onDown(event) {
    if (event.button !== 0) return;
    this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY, startX: event.clientX, startY: event.clientY });
    if (this.pointers.size === 1) this.hasMoved = false;
  }

  #onMove(event) {
    const at = this.pointers.get(event.pointerId);
    if (!at) return;
    if (event.buttons === 0) {
      this.pointers.delete(event.pointerId);
      return;
    }
    const others = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, pointer]) => pointer);
    const far = Math.hypot(event.clientX - at.startX, event.clientY - at.startY) > CLICK_PX;
    if (far && !this.hasMoved) {
      this.hasMoved = true;
      this.host.setPointerCapture(event.pointerId);
    }
    if (others.length) {
      const { left, top } = this.host.getBoundingClientRect();
      const [other] = others;
      const before = Math.hypot(at.x - other.x, at.y - other.y);
      const after = Math.hypot(event.clientX - other.x, event.clientY - other.y);
      if (before > 0) this.zoomBy(after / before, (event.clientX + other.x) / 2 - left, (event.clientY + other.y) / 2 - top);
    } else if (this.hasMoved) this.shift(event.clientX - at.x, event.clientY - at.y, true);
    at.x = event.clientX;
    at.y = event.clientY;
  }
}
