// A paginated list of the admin page, newest first. An error is shown in place of the page that failed.

import { make } from "../lib/dom.js";
import { dates, localTime } from "../lib/pages.js";
import { call } from "./client.js";
import { words } from "./words.js";

export class List {
  #box; #draw; #empty; #name = ""; #args = {}; #turn = 0;

  /** `draw` returns an article for an item. `empty` is the text of a list without items. */
  constructor(box, draw, empty) {
    [this.#box, this.#draw, this.#empty] = [box, draw, empty];
  }

  /** Load the first page of a call's list. */
  show(name, args = {}) {
    [this.#name, this.#args] = [name, args];
    this.#box.replaceChildren(make("p", { className: "quiet" }, words.state.loading));
    return this.#load();
  }

  async #load(cursor) {
    const turn = ++this.#turn, last = this.#box.lastElementChild;
    try {
      const page = await call(this.#name, { ...this.#args, cursor });
      if (turn !== this.#turn) return;
      last?.remove();
      const articles = page.items.map(this.#draw);
      this.#box.append(...articles);
      if (cursor) articles[0]?.focus(); // the focused button was removed
      if (page.cursor) {
        const more = make("button", { type: "button", className: "more", onclick: () => this.#load(page.cursor) }, words.more);
        this.#box.append(more);
      } else if (!this.#box.childElementCount) {
        this.#box.append(make("p", { className: "quiet" }, this.#empty));
      }
    } catch (error) {
      if (turn !== this.#turn) return;
      last?.remove();
      const retry = make("button", { type: "button", onclick: () => this.#load(cursor) }, words.admin.retry);
      this.#box.append(make("div", { className: "row", role: "alert" }, make("span", { className: "mark-bad" }, error.message), retry));
    }
  }
}

/** Create an article that can receive the focus. */
export function article(...children) {
  return make("article", { tabIndex: -1 }, ...children);
}

/** Create the line of details of an article. */
export function facts(...children) {
  return make("p", { className: "facts" }, ...children);
}

/** Create a time in UTC whose title is the local one. */
export function when(instant) {
  return instant ? make("time", { dateTime: instant, title: localTime(instant) }, `${dates.second(instant)} UTC`) : words.admin.unknownTime;
}
