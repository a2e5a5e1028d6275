// The tree on the screen: zoomed and moved by mouse, touch and keys, kept in place while it grows.

import { svg } from "../dom.js";
import { census, grow } from "./grown.js";
import { BAR, layout, linkPath } from "./layout.js";
import { Lens } from "./lens.js";
import { labelOf, drawItem } from "./item.js";

/** Draws into `host`, an element with `role="tree"`. `onChoose(node | null, isAsked)` tells what is looked at. */
export class TreeView {
  constructor(host, { lang, onChoose, say }) {
    this.host = host;
    this.lang = lang;
    this.onChoose = onChoose;
    this.say = say;
    this.drawn = new Map();
    this.shown = new Set();
    this.opened = new Map();
    this.items = [];
    this.active = null;
    this.isFitted = false;
    this.links = svg("g", { class: "links" });
    this.nodes = svg("g", { class: "nodes", role: "none" });
    this.stage = svg("g", { role: "none" }, this.links, this.nodes);
    this.canvas = svg("svg", { role: "presentation" }, this.stage);
    host.replaceChildren(this.canvas);
    this.lens = new Lens(host, (lens) => this.#move(lens));
    host.addEventListener("click", (event) => this.#onClick(event));
    host.addEventListener("keydown", (event) => this.#onKey(event));
    this.watcher = new ResizeObserver(() => {
      if (!this.isFitted) this.fit();
    });
    this.watcher.observe(host);
  }

  /** The words on the nodes, in another language. */
  speak(lang) {
    this.lang = lang;
    this.drawn.forEach(({ group }) => group.remove());
    this.drawn.clear();
    if (this.tree) this.show(this.tree);
  }

  /** Draw what the server told. What is the same stays as it is. */
  show(tree) {
    this.tree = tree;
    const { roots, nodes } = grow(tree);
    this.counts = census(nodes);
    for (const key of [...this.opened.keys()]) if (!nodes.has(key)) this.opened.delete(key);
    const before = this.items.find((item) => item.key === this.active);
    const { items, links, width, height, shown } = layout(roots, { shown: this.shown, opened: this.opened });
    this.items = items;
    this.shown = shown;
    this.size = { width, height };
    this.#drawNodes(items);
    this.#drawLinks(links);
    const after = this.items.find((item) => item.key === this.active);
    if (before && after) this.lens.shift(before.x - after.x, before.y - after.y);
    if (!after) this.#activate(items[0]?.key ?? null, { isQuiet: true });
    else this.#mark();
    if (!this.isFitted) this.fit();
  }

  /** Make the whole tree visible, or as much of it as can be read. */
  fit() {
    if (!this.size || !this.host.clientWidth) return;
    this.lens.fit(this.size.width, this.size.height);
    this.isFitted = true;
  }

  /** Look at a node. */
  choose(key) {
    this.#activate(key, { isSeen: true });
  }

  /** Show more of what a bundle holds. */
  open(key) {
    this.opened.set(key, (this.opened.get(key) ?? 0) + 1);
    this.show(this.tree);
  }

  close() {
    this.watcher.disconnect();
    this.lens.close();
  }

  #drawNodes(items) {
    const gone = new Set(this.drawn.keys());
    let place = this.nodes.firstChild;
    for (const item of items) {
      gone.delete(item.key);
      const before = this.drawn.get(item.key)?.group;
      const { group } = this.#drawn(item);
      if (before === place && before !== undefined) place = group; // it may have been drawn anew in its place
      // In the order in which they are read: a screen reader goes by it.
      if (group === place) place = place.nextSibling;
      else this.nodes.insertBefore(group, place);
    }
    for (const key of gone) {
      this.drawn.get(key).group.remove();
      this.drawn.delete(key);
    }
  }

  #drawn(item) {
    const known = this.drawn.get(item.key);
    const label = labelOf(item, this.lang);
    const { row } = item.node;
    const face = JSON.stringify([item.kind, item.w, item.level, label, row?.state, row?.tiers, row?.num_pins]);
    const place = `translate(${item.x}px, ${item.y}px)`;
    if (known?.face === face) {
      if (known.place !== place) known.group.style.transform = known.place = place;
      return known;
    }
    const group = drawItem(item, label, this.lang);
    group.style.transform = place;
    known?.group.replaceWith(group);
    const drawn = { group, face, place };
    this.drawn.set(item.key, drawn);
    return drawn;
  }

  #drawLinks(links) {
    const d = links.map(linkPath).join("");
    if (this.linkPath === d) return;
    this.linkPath = d;
    this.links.replaceChildren(svg("path", { d, class: "link" }));
  }

  #move({ x, y, zoom }) {
    this.stage.style.transform = `translate(${x}px, ${y}px) scale(${zoom})`;
    this.host.classList.toggle("is-far", zoom < 0.45);
  }

  #activate(key, { isSeen = false, isQuiet = false } = {}) {
    this.active = key;
    this.#mark();
    const item = this.items.find((one) => one.key === key);
    if (isSeen && item) this.lens.reveal(item.x, item.y, item.w, BAR);
    if (!isQuiet && item) this.onChoose(item, false);
  }

  #mark() {
    for (const [key, { group }] of this.drawn) {
      const isActive = key === this.active;
      if (isActive) this.host.setAttribute("aria-activedescendant", group.id);
      group.setAttribute("aria-selected", String(isActive));
    }
    if (this.active === null) this.host.removeAttribute("aria-activedescendant");
  }

  #onClick(event) {
    const key = event.target.closest("[data-node]")?.dataset.node;
    if (key === undefined || this.lens.hasMoved) return;
    this.#activate(key);
    this.#enter();
  }

  #enter() {
    const item = this.items.find((one) => one.key === this.active);
    if (!item) return;
    if (item.kind === "bundle") {
      this.open(item.node.of.key);
      this.say(this.lang.t("tree.opened"));
    } else this.onChoose(item, true);
  }

  #onKey(event) {
    const step = 60;
    const keys = {
      "+": () => this.lens.zoomBy(1.25),
      "=": () => this.lens.zoomBy(1.25),
      "-": () => this.lens.zoomBy(0.8),
      0: () => this.fit(),
      Enter: () => this.#enter(),
      " ": () => this.#enter(),
      Escape: () => this.onChoose(null, true),
      Home: () => this.#go(0),
      End: () => this.#go(this.items.length - 1),
    };
    const arrows = { ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key in arrows) {
      event.preventDefault();
      const [dx, dy] = arrows[event.key];
      if (event.shiftKey) this.lens.shift(dx * step, dy * step, true);
      else this.#walk(event.key);
    } else if (event.key in keys) {
      event.preventDefault();
      keys[event.key]();
    }
  }

  #walk(key) {
    const at = this.items.findIndex((item) => item.key === this.active);
    if (at < 0) return this.#go(0);
    const { level } = this.items[at];
    const moves = {
      ArrowDown: () => at + 1,
      ArrowUp: () => at - 1,
      ArrowRight: () => (this.items[at + 1]?.level > level ? at + 1 : at),
      ArrowLeft: () => this.items.findLastIndex((item, i) => i < at && item.level < level),
    };
    return this.#go(moves[key]());
  }

  #go(index) {
    const item = this.items[Math.max(0, Math.min(this.items.length - 1, index))];
    if (item && index >= 0) this.#activate(item.key, { isSeen: true });
  }
}
