// The drawn tree's life on the page: there while its view is, with the node that somebody looks at.

import { TreeView } from "./view.js";

export class TreePane {
  constructor({ api, asked, say, onChange }) {
    this.api = api;
    this.asked = asked;
    this.say = say;
    this.onChange = onChange;
    this.view = null;
    this.choice = null;
    this.text = null;
  }

  speak(lang) {
    this.view?.speak(lang);
  }

  /** Draw into the page's place for it, where there is one. */
  draw(tree, lang) {
    const host = document.getElementById("tree-host");
    if (!host || !tree) {
      if (this.view && !host) this.close();
      return;
    }
    if (this.view?.host !== host) {
      this.view?.close();
      this.view = new TreeView(host, { lang, say: this.say, onChoose: (item, isAsked) => this.#choose(item, isAsked) });
    }
    if (this.tree !== tree || this.view.tree === undefined) this.view.show(tree);
    this.tree = tree;
  }

  close() {
    this.view?.close();
    this.view = this.tree = this.choice = this.text = null;
  }

  act(action, id) {
    if (action === "node-close") this.#choose(null, true);
    if (action === "node-text") this.#tell(Number(id));
    if (action === "zoom-in") this.view?.lens.zoomBy(1.25);
    if (action === "zoom-out") this.view?.lens.zoomBy(0.8);
    if (action === "zoom-fit") this.view?.fit();
  }

  #choose(item, isAsked) {
    if (item === null) {
      if (this.choice !== null) this.view?.host.focus();
      this.choice = this.text = null;
    } else if (isAsked || this.choice !== null) {
      if (item.kind !== "node") return;
      if (this.choice !== item.key) this.text = null;
      this.choice = item.key;
    } else return;
    this.onChange();
  }

  async #tell(id) {
    const told = { id, text: null, error: null };
    this.text = told;
    this.onChange();
    try {
      const tree = await this.api.get("admin/tree", { ...this.asked, text: 1 });
      told.text = String(tree.rows.find((row) => row.id === id)?.text ?? "");
    } catch (error) {
      told.error = error;
    }
    this.onChange();
  }
}
