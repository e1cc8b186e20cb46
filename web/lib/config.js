// The addresses of the API and its sockets, from web/config.json. The app generates that file; on a static host it is
// a file that names the API. A link may choose among the addresses that it allows with `?api=` and `?socket=`. Any
// other address is ignored, because the page sends its token there.

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
const own = await readConfig(home);
const allowed = new Set([home, own.api, own.socket, ...(own.allowed ?? [])].filter(Boolean).map(normalize));

/** Return the address that a parameter of the link names, if it is allowed. */
function choose(name) {
  const text = parameters.get(name);
  if (!text) return "";
  if (allowed.has(normalize(text))) return text;
  refused.push(name);
  return "";
}

const base = normalize(choose("api") || own.api || home);
const found = base === home ? own : await readConfig(base);
if (found.socket) allowed.add(normalize(found.socket));

export const api = base;
export const socket = choose("socket") || own.socket || found.socket || "";
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
