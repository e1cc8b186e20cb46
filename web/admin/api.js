// The API client of the admin page. It calls only the API that served the page, so no link can redirect the token.

import { words } from "../lib/words.js";

const API = new URL("..", location.href);
const TIMEOUT = 10_000; // ms
const KEY = "hubbub.admin";

export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    Object.assign(this, { status, code });
  }
}

export class Offline extends Error {}

/** Dispatches "refused" for each call whose token is refused. */
export const authorization = new EventTarget();

/** The token, in the storage of this tab. Where the browser forbids storage, it lasts until the page is closed. */
let current = "";
export const token = {
  get() {
    try { current = sessionStorage.getItem(KEY) ?? current; } catch { /* forbidden */ }
    return current;
  },
  set(value) {
    current = value;
    try { value ? sessionStorage.setItem(KEY, value) : sessionStorage.removeItem(KEY); } catch { /* forbidden */ }
  },
};

/** Send a call and return the decoded JSON. Throws ApiError or Offline. */
export async function call(method, path, { query = {}, body } = {}) {
  const url = new URL(path, API);
  for (const [name, value] of Object.entries(query)) if (value) url.searchParams.set(name, value);
  const options = { method, cache: "no-store", signal: AbortSignal.timeout(TIMEOUT), headers: { Authorization: `Bearer ${token.get()}` } };
  if (body) {
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] = "application/json";
  }
  let response, json;
  try {
    response = await fetch(url, options);
    json = response.status === 204 ? {} : await response.json();
  } catch {
    throw new Offline(words.admin.notResponding);
  }
  if (response.ok) return json;
  const error = new ApiError(response.status, json.Code, json.Message ?? words.status(response.status));
  if ([401, 403].includes(response.status)) authorization.dispatchEvent(new CustomEvent("refused", { detail: error }));
  throw error;
}

/** Encode a name as one segment of a path. */
export const encode = encodeURIComponent;
