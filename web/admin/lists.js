// What exists: leaderboards, challenges, products and sites, each with a search and a link to what can be done with it.

import { make } from "../lib/dom.js";
import { call } from "./client.js";
import { when } from "./list.js";
import { words } from "./words.js";

const PAGE = 100, MOST = 1000; // entries that are loaded
const text = words.admin;
// The call of each list, the field with the name, and the link of an entry.
const KINDS = {
  leaderboards: { list: "getBoards", key: "board", link: (name) => `#leaderboard/${encodeURIComponent(name)}` },
  challenges: { list: "getChallenges", key: "challenge", link: (name) => `#challenge/${encodeURIComponent(name)}` },
  products: { list: "getProducts", key: "product", link: (name) => `#product/${encodeURIComponent(name)}` },
  sites: { list: "getSites", key: "site", link: (name) => `dashboard.html?site=${encodeURIComponent(name)}`, define: "site" },
};

/** Load all lists. A list that the stage does not offer is left out. */
export function showLists() {
  const cards = Object.entries(KINDS).map(([kind, found]) => card(kind, found));
  document.getElementById("lists").replaceChildren(...cards);
}

function card(kind, { list: name, key, link, define }) {
  const title = make("h2", { id: `${kind}-title` }, text.lists[kind]);
  const search = make("input", { type: "search", placeholder: text.search, ariaLabel: text.searchIn(text.lists[kind]) });
  const list = make("ul", { tabIndex: 0, ariaLabel: text.lists[kind] }), note = make("p", { className: "quiet", role: "status" }, words.state.loading);
  const shown = make("section", { className: "card", id: `list-${kind}` }, title, search, list, note);
  shown.setAttribute("aria-labelledby", title.id);
  let entries = [];

  function draw() {
    const sought = search.value.trim().toLowerCase();
    const found = entries.filter((entry) => `${entry[key]} ${entry.title ?? ""}`.toLowerCase().includes(sought));
    list.replaceChildren(...found.map((entry) => make("li", {},
      make("a", { href: link(entry[key]) }, entry.title ?? entry[key]),
      make("span", { className: "facts" }, entry.title ? `${entry[key]} · ` : "", entry.created ? when(entry.created) : "",
        entry.views ? words.viewsOf(entry.views) : "", define ? " · " : "",
        define ? make("a", { href: `#${define}/${encodeURIComponent(entry[key])}` }, text.define) : ""))));
    note.textContent = found.length ? "" : entries.length ? text.noneFound : text.none;
  }

  async function load() {
    try {
      let cursor;
      do {
        const page = await call(name, { limit: PAGE, cursor });
        entries = [...entries, ...page.items];
        cursor = page.cursor;
        draw();
      } while (cursor && entries.length < MOST);
      if (cursor) note.textContent = text.onlyFirst(entries.length);
    } catch (error) {
      if (error.status === 404) shown.remove();
      else note.textContent = error.message;
    }
  }

  search.addEventListener("input", draw);
  load();
  return shown;
}
