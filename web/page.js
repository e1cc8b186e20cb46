// The page: a site's most viewed pages, one of them over time, and views to send. It asks once a second.

import { call, get, Offline, path, Refused } from "./calls.js";
import { send } from "./send.js";
import * as series from "./series.js";
import { count, plural } from "./words.js";

const SECOND = 1000;
const LONGEST_PAUSE = 15 * SECOND;
const SERIES_AGE = 30 * SECOND; // until a series is loaded again though no number changed: hours pass
const byId = (id) => document.getElementById(id);

const state = { site: "", pages: [], page: "", figures: null, unsettled: true, seriesAt: 0 };

// -- the heartbeat -------------------------------------------------------------------------------------

let turn = 0, timer = 0, failures = 0;

/** Ask for what is shown, then again in a second; slower while nobody answers, not at all while hidden. */
async function beat() {
  clearTimeout(timer);
  const mine = ++turn;
  const current = () => mine === turn;
  if (document.hidden) {
    say("paused", "Paused");
    return;
  }
  let pause = SECOND;
  try {
    await refresh(current);
    if (!current()) return;
    failures = 0;
    say("live", "Live");
  } catch (error) {
    if (!current() || !complain(error)) return;
    pause = Math.min(SECOND * 2 ** failures, LONGEST_PAUSE);
    failures += 1;
  }
  timer = setTimeout(beat, pause);
}

async function refresh(current) {
  const { items } = await get("/views/top", { site: state.site, limit: 10 });
  if (!current()) return;
  if (!state.page && items.length) select(items[0].url);
  showPages(items);
  if (!state.page) return;
  const figures = await get("/views", { url: state.page });
  if (current()) await showPage(figures, current);
}

/** Say why nothing new can be shown; tell whether asking again can help. */
function complain(error) {
  if (error instanceof Offline) {
    say("offline", "Offline", "Hubbub does not answer. Is make run still running? This page tries again by itself.");
    return true;
  }
  if (error instanceof Refused) {
    say("error", "Error", error.message);
    if (!state.pages.length) byId("totals").textContent = "Nothing to show.";
    return error.passes;
  }
  say("error", "Error", "This page made a mistake; the browser’s console says more.");
  console.error(error);
  return false;
}

function say(name, text, notice = "") {
  setText(byId("state"), text);
  byId("state").dataset.state = name;
  document.body.classList.toggle("stale", name === "offline" || name === "error");
  setText(byId("notice"), notice);
  byId("notice").hidden = !notice;
}

// -- a site's pages ------------------------------------------------------------------------------------

function chooseSite(text) {
  let site = text.trim();
  if (site.includes("//") && URL.canParse(site)) site = new URL(site).hostname;
  Object.assign(state, { site, pages: [], page: "" });
  remember("site", site);
  byId("site").value = site;
  byId("empty-site").textContent = site;
  byId("command").textContent = `python -m ops import-log --site https://${site} access.log`;
  byId("totals").textContent = "Loading …";
  byId("path").value = "/hello";
  byId("sent").textContent = "";
  byId("rows").replaceChildren();
  byId("totals").hidden = byId("no-page").hidden = false;
  byId("pages").hidden = byId("empty").hidden = byId("of-page").hidden = true;
  links();
  beat();
}

function showPages(items) {
  state.pages = items;
  const sum = items.reduce((total, item) => total + item.views, 0);
  const of = items.length < 10 ? plural(items.length, "page") : "the 10 most viewed pages";
  setText(byId("totals"), `${plural(sum, "view")} of ${of}`);
  byId("empty").hidden = items.length > 0;
  byId("pages").hidden = byId("totals").hidden = !items.length;

  const body = byId("rows");
  const rows = new Map([...body.rows].map((row) => [row.dataset.url, row]));
  const focused = document.activeElement;
  const oneOrigin = new Set(items.map((item) => new URL(item.url).origin)).size === 1;
  items.forEach((item, index) => {
    const row = rows.get(item.url) ?? newRow(item.url);
    rows.delete(item.url);
    if (body.rows[index] !== row) body.insertBefore(row, body.rows[index] ?? null);
    const [button, bar] = row.cells[0].children;
    setText(button, oneOrigin ? pathOf(item.url) : item.url);
    button.setAttribute("aria-current", item.url === state.page);
    bar.style.setProperty("--share", item.views / items[0].views);
    setNumber(row.cells[1], item.views);
  });
  for (const row of rows.values()) row.remove();
  if (body.contains(focused)) focused.focus({ preventScroll: true }); // a row that moves loses its focus
}

function newRow(url) {
  const row = document.createElement("tr");
  row.dataset.url = url;
  const name = row.appendChild(document.createElement("td"));
  const button = name.appendChild(document.createElement("button"));
  Object.assign(button, { type: "button", className: "choice", title: url });
  button.addEventListener("click", () => {
    select(url);
    beat();
  });
  name.appendChild(document.createElement("span")).className = "bar";
  row.appendChild(document.createElement("td")).className = "number";
  return row;
}

// -- one page ------------------------------------------------------------------------------------------

function select(url) {
  if (state.page !== url) {
    Object.assign(state, { page: url, figures: null });
    for (const id of ["views", "uniques"]) byId(id).textContent = "–";
    byId("badge").removeAttribute("src");
  }
  byId("no-page").hidden = true;
  byId("of-page").hidden = false;
  byId("address").textContent = byId("address").href = url;
  byId("path").value = pathOf(url);
  if (!state.figures) series.clear();
  for (const row of byId("rows").rows) {
    row.cells[0].firstChild.setAttribute("aria-current", row.dataset.url === url);
  }
  links();
}

/** Show a page's numbers; load series and badge when they changed, the series once more a second later. */
async function showPage(figures, current) {
  const changed = state.figures?.views !== figures.views || state.figures?.uniques !== figures.uniques;
  const stale = changed || state.unsettled || Date.now() - state.seriesAt > SERIES_AGE;
  Object.assign(state, { figures, unsettled: changed });
  setNumber(byId("views"), figures.views);
  setNumber(byId("uniques"), figures.uniques);
  if (stale) {
    state.seriesAt = Date.now();
    await series.load(figures.url, figures.views, current);
  }
  if (changed && current()) await showBadge(figures, current);
}

// As a blob: a badge may be kept for 30 seconds, and an <img> would keep it.
async function showBadge({ url, views }, current) {
  const image = await call("GET", path("/views/badge.svg", { url }), { blob: true });
  if (!current()) return;
  URL.revokeObjectURL(byId("badge").src);
  byId("badge").src = URL.createObjectURL(image);
  byId("badge").alt = `Badge: ${plural(views, "view")}`;
}

// -- views to send -------------------------------------------------------------------------------------

const buttons = [byId("send-one"), byId("send-many")];
let sending = false;

async function sendViews(clients) {
  if (sending) return;
  sending = true;
  for (const button of buttons) button.setAttribute("aria-disabled", "true"); // `disabled` would lose the focus
  const site = state.site;
  const tell = (text) => setText(byId("sent"), text);
  try {
    const { url, text } = await send(target(), clients, tell);
    tell(text);
    if (site === state.site) select(url);
  } catch (error) {
    tell(error instanceof Refused ? `Not counted: ${error.message}` : `Not sent: ${error.message}`);
  }
  sending = false;
  for (const button of buttons) button.removeAttribute("aria-disabled");
  beat();
}

/** The page that is shown, unless the field names another one of its site. */
function target() {
  const text = byId("path").value.trim();
  if (state.page && text === pathOf(state.page)) return state.page;
  const like = state.page || state.pages[0]?.url;
  return (like ? new URL(like).origin : `https://${state.site}`) + (text.startsWith("/") ? text : `/${text}`);
}

// -- texts, numbers, links -----------------------------------------------------------------------------

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Set a number; one that changed flashes (page.css decides how, and whether). */
function setNumber(element, value) {
  const before = element.textContent, text = count.format(value);
  if (before === text) return;
  element.textContent = text;
  element.classList.remove("changed");
  if (before === "" || before === "–") return;
  void element.offsetWidth; // begins the animation anew
  element.classList.add("changed");
}

function pathOf(url) {
  const { pathname, search } = new URL(url);
  return pathname + search;
}

function links() {
  const url = state.page || `https://${state.site}/hello`;
  byId("link-top").href = path("/views/top", { site: state.site, limit: 10 });
  byId("link-views").href = path("/views", { url });
  byId("link-series").href = path("/views/series", series.query(url));
  byId("link-badge").href = path("/views/badge.svg", { url });
}

// Where the browser forbids storage, the site is not remembered.
function remember(name, value) {
  try {
    if (value === undefined) return localStorage.getItem(`hubbub.${name}`);
    localStorage.setItem(`hubbub.${name}`, value);
  } catch { /* nothing is kept */ }
  return null;
}

series.onChange(() => {
  state.unsettled = true;
  links();
  beat();
});
document.addEventListener("visibilitychange", beat);
addEventListener("online", beat);
byId("send-many").addEventListener("click", () => byId("send").reportValidity() && sendViews(25));
byId("send").addEventListener("submit", (event) => {
  event.preventDefault();
  sendViews(1);
});
byId("choose").addEventListener("submit", (event) => {
  event.preventDefault();
  chooseSite(byId("site").value);
});
chooseSite(remember("site") || "example.org");
