// What the dashboard shows: the site, the period, a page, and whether the period before is compared. The address of
// the page has all of it, so a link keeps the view. Without a site in it, the page shows the last site that this browser
// has seen, or the stage's first.

import { DAY, isoDate, listSites } from "../lib/pages.js";
import { PERIODS } from "./periods.js";

export const TRAITS = ["device", "browser", "os", "language"]; // beside the countries
const DATE = /^\d{4}-\d{2}-\d{2}$/;
const KEY = "hubbub.site";
const KNOWN = "hubbub.sites"; // the sites that were shown in this browser

let sites = []; // of the stage

/** Load the sites of the stage. */
export async function loadSites() { sites = await listSites(); }

/** Return whether the address or this browser names a site. */
export const hasSite = () => Boolean(new URLSearchParams(location.search).get("site") ?? stored(KEY));

/** Return the view that the address names. */
export function read() {
  const given = new URLSearchParams(location.search);
  const date = (name, other) => (DATE.test(given.get(name)) && !Number.isNaN(Date.parse(given.get(name))) ? given.get(name) : other);
  return {
    site: host(given.get("site") ?? stored(KEY) ?? sites[0] ?? "demo.example.org"),
    period: PERIODS.includes(given.get("period")) ? given.get("period") : "7d",
    from: date("from", isoDate(Date.now() - 6 * DAY)),
    to: date("to", isoDate(Date.now())),
    page: webPage(given.get("page")),
    compare: given.get("compare") !== "no",
    by: TRAITS.includes(given.get("by")) ? given.get("by") : TRAITS[0],
  };
}

/** Return the address of a view. */
export function link({ site, period, from, to, page, compare, by }) {
  const query = new URLSearchParams({ site, period });
  if (period === "range") Object.entries({ from, to }).forEach(([name, value]) => query.set(name, value));
  if (page) query.set("page", page);
  if (!compare) query.set("compare", "no");
  if (by !== TRAITS[0]) query.set("by", by);
  return `${location.pathname}?${query}${location.hash}`; // with the token of a link
}

// The page becomes a link, so any other scheme is ignored: a link may come from a stranger.
const webPage = (text) => (URL.canParse(text ?? "") && /^https?:$/.test(new URL(text).protocol) ? text : "");

/** Return whether the address names a period. */
export const hasPeriod = () => new URLSearchParams(location.search).has("period");

/** Return the host of an address. A site is its host, without a port. */
export function host(text) {
  const [place] = text.trim().replace(/^[a-z]+:\/\//i, "").split(/[/?#]/);
  return place.replace(/^(\[.*\]|[^:]*):\d*$/, "$1");
}

/** Return the sites that were shown in this browser, and those of the stage. */
export const knownSites = () => [...new Set([...seenSites(), ...sites])];

const seenSites = () => JSON.parse(stored(KNOWN) ?? "[]");

/** Remember a site that has views. */
export function rememberSite(site) {
  try {
    localStorage.setItem(KEY, site);
    localStorage.setItem(KNOWN, JSON.stringify([site, ...seenSites().filter((seen) => seen !== site)].slice(0, 20)));
  } catch { /* the browser forbids storage */ }
}

function stored(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}
