// Where the API and its sockets are: `?api=` and `?socket=`, else web/config.json beside the page, which the
// app itself answers, and a static host may have with the address of an app in it.

const asked = new URLSearchParams(location.search);

async function read(base) {
  try {
    const answer = await fetch(new URL("web/config.json", base), { cache: "no-store" });
    return answer.ok ? await answer.json() : {};
  } catch {
    return {}; // the panels will say that nobody answers
  }
}

const folder = (text) => new URL(text.endsWith("/") ? text : `${text}/`, document.baseURI);
let base = asked.get("api") ? folder(asked.get("api")) : new URL(".", document.baseURI);
let found = await read(base);
if (found.api) {
  base = folder(found.api);
  found = await read(base);
}

export const api = base.href;
export const socket = asked.get("socket") || found.socket || "";
export const isLocal = found.stage === "local" && base.origin === location.origin;

/** Write the address of a call; what is not said of the query is left out. */
export function address(path, query = {}) {
  const said = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return api + path.slice(1) + (said.length ? `?${new URLSearchParams(said)}` : "");
}

/** Write a name as a part of a path. */
export const part = encodeURIComponent;
