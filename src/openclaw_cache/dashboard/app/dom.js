// Nodes are made here and nowhere else. Data reaches the page as text or as a checked attribute, never as markup.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element. `attributes` may hold `class`, `style` (an object of properties) and any attribute. */
export function el(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** An SVG element. */
export function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "style") {
      for (const [property, setting] of Object.entries(value)) node.style.setProperty(property, setting);
      continue;
    }
    if (name.startsWith("on")) throw new Error(`${name}: listeners are delegated, never attributes`);
    if (name === "href" && !String(value).startsWith("#")) throw new Error("href: only places of this page");
    node.setAttribute(name, value === true ? "" : String(value));
  }
  append(node, children);
  return node;
}

function append(node, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(node, child);
    else node.append(child instanceof Node ? child : String(child));
  }
}

/**
 * Make `from` look like `to` and change nothing that is the same already: focus, selection and what a screen reader
 * stands on survive. Children with a `data-key` keep their node when others come before them. Nodes with
 * `data-opaque` are somebody else's and keep their content; whether a `details` is open is its reader's.
 */
export function morph(from, to) {
  if (!isSame(from, to)) {
    from.replaceWith(to);
    return to;
  }
  if (from.nodeType === Node.TEXT_NODE) {
    if (from.data !== to.data) from.data = to.data;
    return from;
  }
  copyAttributes(from, to);
  if (!from.hasAttribute("data-opaque")) morphChildren(from, to);
  return from;
}

function isSame(a, b) {
  return a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);
}

function keyOf(node) {
  return node.nodeType === Node.ELEMENT_NODE ? node.getAttribute("data-key") : null;
}

function copyAttributes(from, to) {
  for (const { name, value } of to.attributes) {
    if (name !== "style" && from.getAttribute(name) !== value) from.setAttribute(name, value);
  }
  // A `style` attribute would be inline style, which our policy forbids; its properties are not.
  if (from.style.cssText !== to.style.cssText) from.style.cssText = to.style.cssText;
  for (const { name } of [...from.attributes]) {
    if (name === "style" || (name === "open" && from.nodeName === "DETAILS")) continue;
    if (!to.hasAttribute(name)) from.removeAttribute(name);
  }
}

function morphChildren(from, to) {
  const wantedKeys = new Set([...to.childNodes].map(keyOf));
  const keyed = new Map();
  for (const child of [...from.childNodes]) {
    const key = keyOf(child);
    if (key === null) continue;
    // Those that go do so first: then those that stay need not be moved, which would cost them the focus.
    if (wantedKeys.has(key)) keyed.set(key, child);
    else child.remove();
  }
  let place = from.firstChild;
  for (const wanted of [...to.childNodes]) {
    const key = keyOf(wanted);
    const known = key === null ? null : keyed.get(key);
    if (known && isSame(known, wanted)) {
      keyed.delete(key);
      if (known === place) place = place.nextSibling;
      else from.insertBefore(known, place);
      morph(known, wanted);
    } else if (key === null && place && isSame(place, wanted)) {
      const next = place.nextSibling;
      morph(place, wanted);
      place = next;
    } else {
      from.insertBefore(wanted, place);
    }
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}
