// The admin page's calls to the API that it was served by: no address can make it send the token elsewhere.

const API = new URL("..", import.meta.url);
const PATIENCE = 10_000; // ms
const KEY = "hubbub.admin";

export class Refused extends Error {
  constructor(status, code, message) {
    super(message);
    Object.assign(this, { status, code });
  }
}

export class Offline extends Error {}

/** Hears of each refused token. */
export const doubts = new EventTarget();

/** The token: in this tab's own storage, or, where the browser forbids that, until the page is left. */
let held = "";
export const token = {
  get() {
    try { held = sessionStorage.getItem(KEY) ?? held; } catch { /* forbidden */ }
    return held;
  },
  set(value) {
    held = value;
    try { value ? sessionStorage.setItem(KEY, value) : sessionStorage.removeItem(KEY); } catch { /* forbidden */ }
  },
};

/** Ask the API; answers the decoded JSON. Throws Refused, Offline. */
export async function call(method, path, { query = {}, body } = {}) {
  const url = new URL(path, API);
  for (const [name, value] of Object.entries(query)) if (value) url.searchParams.set(name, value);
  const options = { method, cache: "no-store", signal: AbortSignal.timeout(PATIENCE), headers: { Authorization: `Bearer ${token.get()}` } };
  if (body) {
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] = "application/json";
  }
  let answer, said;
  try {
    answer = await fetch(url, options);
    said = answer.status === 204 ? {} : await answer.json();
  } catch {
    throw new Offline("Hubbub does not answer: try again.");
  }
  if (answer.ok) return said;
  const refused = new Refused(answer.status, said.Code, said.Message ?? `The answer was ${answer.status}.`);
  if ([401, 403].includes(answer.status)) doubts.dispatchEvent(new CustomEvent("refused", { detail: refused }));
  throw refused;
}

export const part = encodeURIComponent;
