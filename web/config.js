// Where the API and its sockets are. web/config.json beside the page decides: the app itself answers it, and on
// a static host it is a file that names the API. A link may choose with `?api=` and `?socket=` among the
// addresses that this file allows. Any other is ignored, because the page's token is sent there.

const asked = new URLSearchParams(location.search);

async function read(base) {
  try {
    const answer = await fetch(new URL("web/config.json", base), { cache: "no-store" });
    return answer.ok ? await answer.json() : {};
  } catch {
    return {}; // the panels show that the API is offline
  }
}

/** Write an address in one form, with a slash at its end; "" for a text that is none. */
function normal(text) {
  try {
    return new URL(text.endsWith("/") ? text : `${text}/`, document.baseURI).href;
  } catch {
    return "";
  }
}

/** Names of the parameters whose address is not allowed. */
export const refused = [];

const home = normal(".");
const own = await read(home);
const allowed = new Set([home, own.api, own.socket, ...(own.allowed ?? [])].filter(Boolean).map(normal));

/** Return the address that a parameter of the link names, if it is allowed. */
function chosen(name) {
  const text = asked.get(name);
  if (!text) return "";
  if (allowed.has(normal(text))) return text;
  refused.push(name);
  return "";
}

const base = normal(chosen("api") || own.api || home);
const found = base === home ? own : await read(base);
if (found.socket) allowed.add(normal(found.socket));

export const api = base;
export const socket = chosen("socket") || own.socket || found.socket || "";
export const isLocal = found.stage === "local" && new URL(base).origin === location.origin;

/** Write the address of a call; what is not said of the query is left out. */
export function address(path, query = {}) {
  const said = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return api + path.slice(1) + (said.length ? `?${new URLSearchParams(said)}` : "");
}

/** Write a name as a part of a path. */
export const part = encodeURIComponent;
