// A list of the admin page: its newest page, and more on demand; what goes wrong is said in its place.

import { call } from "./admin-calls.js";
import { make } from "./widgets/element.js";

export class List {
  #box; #draw; #empty; #path = ""; #turn = 0;

  /** `draw` makes an article of an item, `empty` is what is said when there is none. */
  constructor(box, draw, empty) {
    [this.#box, this.#draw, this.#empty] = [box, draw, empty];
    box.tabIndex = 0;
    box.role = "region";
  }

  /** Begin anew with the first page of a path. */
  show(path) {
    this.#path = path;
    this.#box.replaceChildren(make("p", { className: "quiet" }, "Loading …"));
    return this.#load("");
  }

  async #load(cursor) {
    const mine = ++this.#turn, last = this.#box.lastElementChild;
    try {
      const page = await call("GET", this.#path, { query: { cursor } });
      if (mine !== this.#turn) return;
      last?.remove();
      const articles = page.items.map(this.#draw);
      this.#box.append(...articles);
      if (cursor) articles[0]?.focus(); // the button that had the focus is gone
      if (page.cursor) {
        const more = make("button", { type: "button", className: "more", onclick: () => this.#load(page.cursor) }, "More");
        this.#box.append(more);
      } else if (!this.#box.childElementCount) {
        this.#box.append(make("p", { className: "quiet" }, this.#empty));
      }
    } catch (error) {
      if (mine !== this.#turn) return;
      last?.remove();
      const again = make("button", { type: "button", onclick: () => this.#load(cursor) }, "Try again");
      this.#box.append(make("div", { className: "row", role: "alert" }, make("span", { className: "mark-bad" }, error.message), again));
    }
  }
}

/** Make an article, which can have the focus: a title line, what else is said. */
export function article(...children) {
  return make("article", { tabIndex: -1 }, ...children);
}

export function facts(...children) {
  return make("p", { className: "facts" }, ...children);
}

/** Write an instant for people, with the exact one as its title. */
export function when(instant) {
  return instant ? make("time", { dateTime: instant, title: instant }, new Date(instant).toLocaleString()) : "at a time unknown";
}
