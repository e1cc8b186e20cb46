// What all pages share: the addresses of the API, the language with its words and formats, and the header.

import { formatsFor, make } from "./dom.js";
import { datesFor } from "./labels.js";

// -- the language: the visitor chooses it in the header. Before that, the browser's languages decide ------

const LANGUAGES = { en: "English", de: "Deutsch" };
const WORDS = { en: () => import("../words-en/pages.js"), de: () => import("../words-de/pages.js") };
const KEY = "hubbub.language";

/** The language of the page: a key of LANGUAGES. */
export const language = chooseLanguage();

function chooseLanguage() {
  let stored = null;
  try {
    stored = localStorage.getItem(KEY);
  } catch { /* the browser forbids storage */ }
  return [stored, ...navigator.languages.map((tag) => tag.slice(0, 2))].find((tag) => Object.hasOwn(LANGUAGES, tag)) ?? "en";
}

/** Use another language from now on. Reloads the page. */
function useLanguage(tag) {
  try {
    localStorage.setItem(KEY, tag);
  } catch { /* then the choice cannot be kept */ }
  location.reload();
}

// English dates are written as in Britain: "17 May 2015", "13:00". The widgets of the page follow its `lang`.
const locale = document.documentElement.lang = language === "en" ? "en-GB" : language;
export const dates = datesFor(locale);
export const formats = formatsFor(locale);
export const { count, points, decimal, percent, clock: localClock, localTime } = formats;

export const DAY = 86_400_000; // ms

/** Return the UTC date of a time: "2015-05-17". */
export const isoDate = (time) => new Date(time).toISOString().slice(0, 10);

// -- the addresses of the API and its sockets, from web/config.json -----------------------------------------

// The app generates that file. On a static host it is a file that names the API. A link may choose among the addresses
// that it allows with `?api=` and `?socket=`. Any other address is ignored, because the page sends its token there.

const parameters = new URLSearchParams(location.search);

async function readConfig(base) {
  try {
    const response = await fetch(new URL("web/config.json", base), { cache: "no-store" });
    return response.ok ? await response.json() : {};
  } catch {
    return {}; // the panels show that the API is offline
  }
}

/** Return an address as an absolute URL that ends with a slash, or "" if the text is not a valid address. */
function normalize(text) {
  try {
    return new URL(text.endsWith("/") ? text : `${text}/`, document.baseURI).href;
  } catch {
    return "";
  }
}

/** The parameters of the link that were ignored because their address is not allowed. */
export const refused = [];

// A page below `web` says where the API's page is.
const home = normalize(document.querySelector("meta[name=home]")?.content ?? ".");
const [config, { words }] = await Promise.all([readConfig(home), WORDS[language]()]);
export { config, words };
const allowed = new Set([home, config.api, config.socket, ...(config.allowed ?? [])].filter(Boolean).map(normalize));

/** Return the address that a parameter of the link names, if it is allowed. */
function chooseAddress(name) {
  const text = parameters.get(name);
  if (!text) return "";
  if (allowed.has(normalize(text))) return text;
  refused.push(name);
  return "";
}

const base = normalize(chooseAddress("api") || config.api || home);
const found = base === home ? config : await readConfig(base);
if (found.socket) allowed.add(normalize(found.socket));

export const api = base;
export const socket = chooseAddress("socket") || config.socket || found.socket || "";
export const allowsGuests = found.guests === true;
export const isLocal = found.stage === "local" && new URL(base).origin === location.origin;

/** Return the sites whose views the stage counts, as far as it names them. A local run names those that have views. */
export async function listSites() {
  if (!isLocal) return found.sites ?? [];
  try {
    const headers = { "Content-Type": "application/json" };
    return (await (await fetch(`${base}local/sites`, { method: "POST", headers, body: "{}" })).json()).sites ?? [];
  } catch {
    return []; // the panels show that the API is offline
  }
}

/** The stage, as the commands of an operator name it. */
export const stage = found.stage ?? "local";

// -- the header ---------------------------------------------------------------------------------------------

/** Write the choice of the language and the link that skips the header. */
export function showHeader() {
  const options = Object.entries(LANGUAGES).map(([tag, name]) => make(
    "option", { value: tag, lang: tag, selected: tag === language, ariaLabel: name }, tag.toUpperCase(),
  ));
  const choice = make("select", { id: "language", onchange: ({ target }) => useLanguage(target.value) }, ...options);
  const label = make("label", { className: "language" }, make("span", { className: "hidden" }, words.language), choice);
  document.getElementById("choices").replaceChildren(label);
  document.querySelector(".skip").textContent = words.skip;
}
