// A page's views over time: the time frame, the plot, the same figures as a table.

import { get, Refused } from "./calls.js";
import { draw, named } from "./plot.js";
import { count, plural } from "./words.js";

const DAY = 86_400_000; // ms
const YEARS_BACK = 25;
const byId = (id) => document.getElementById(id);
const date = (time) => new Date(time).toISOString().slice(0, 10);
const today = () => date(Date.now());
const interval = () => byId("range").elements.interval.value;

let page = "", total = 0, items = [];
let dated = false; // whether the user, or a search, has set the dates
let whenChanged = () => {};

/** Have a function called whenever another series is wanted. */
export function onChange(then) {
  whenChanged = then;
}

/** Empty the plot, for another page. */
export function clear() {
  [page, items] = ["", []];
  byId("series-problem").hidden = byId("outside").hidden = true;
  byId("plot").hidden = byId("figures-table").hidden = false;
  draw([], interval(), "Loading …");
  fill();
}

/** Write the query of a page's series. Without `to` the API ends with now: no hours that are still to come. */
export function query(url) {
  if (!dated) setRange(Date.now() - 29 * DAY, Date.now());
  const to = byId("to").value;
  return { url, interval: interval(), from: byId("from").value, to: to < today() ? to : "" };
}

/** Load and show the series of a page with so many views, unless `current` says that it came too late. */
export async function load(url, views, current) {
  const problem = byId("series-problem");
  try {
    const answer = await get("/views/series", query(url));
    if (!current()) return;
    [page, total, items] = [url, views, answer.items];
    problem.hidden = true;
    byId("plot").hidden = byId("figures-table").hidden = false;
    show();
  } catch (error) {
    if (!(error instanceof Refused) || error.passes) throw error;
    if (!current()) return;
    problem.textContent = error.message;
    problem.hidden = false;
    byId("plot").hidden = byId("outside").hidden = byId("figures-table").hidden = true;
  }
}

function show() {
  const inside = items.reduce((sum, item) => sum + item.views, 0);
  draw(items, interval(), inside ? `${plural(inside, "view")} in this time.` : "No views in this time.");
  byId("outside").hidden = total <= inside;
  byId("outside-text").textContent = `${plural(total - inside, "view")} at other times:`;
  byId("later").disabled = byId("to").value >= today();
  fill();
}

function fill() {
  if (!byId("figures-table").open) return;
  const rows = items.filter((item) => item.views).reverse().map((item) => {
    const row = document.createElement("tr");
    for (const value of [named(item), count.format(item.views), count.format(item.uniques)]) {
      row.appendChild(document.createElement("td")).textContent = value;
    }
    row.cells[1].className = row.cells[2].className = "number";
    return row;
  });
  byId("figures").replaceChildren(...rows);
}

// -- the time frame ------------------------------------------------------------------------------------

function setRange(from, to) {
  byId("from").value = date(from);
  byId("to").value = date(to);
}

/** Look a year at a time, backwards or forwards, until there are views; then show those. */
async function seek(years) {
  const url = page, text = byId("outside-text");
  let from = Date.parse(byId("from").value), to = Date.parse(byId("to").value), found = [];
  text.textContent = "Looking …";
  try {
    for (let looks = 0; looks < YEARS_BACK && !found.length; looks += 1) {
      if (years > 0 && date(to) >= today()) break;
      [from, to] = years < 0 ? [from - 365 * DAY, from - DAY] : [to + DAY, to + 365 * DAY];
      const answer = await get("/views/series", { url, interval: "day", from: date(from), to: date(to) });
      found = answer.items.filter((item) => item.views);
    }
  } catch (error) {
    text.textContent = error.message;
    return;
  }
  if (url !== page) return;
  text.textContent = `There are none ${years < 0 ? "earlier" : "later"}.`;
  if (!found.length) return;
  const [first, last] = [found[0], found.at(-1)].map((item) => Date.parse(item.time));
  byId("range").elements.interval.value = last - first < 3 * DAY ? "hour" : "day";
  dated = true;
  setRange(first, last);
  whenChanged();
}

byId("earlier").addEventListener("click", () => seek(-1));
byId("later").addEventListener("click", () => seek(1));
byId("figures-table").addEventListener("toggle", fill);
byId("range").addEventListener("submit", (event) => event.preventDefault());
byId("range").addEventListener("change", (event) => {
  if (event.target.type === "date") dated = true;
  if (byId("from").value && byId("to").value) whenChanged();
});
