// The dashboard's client of the API: `hubbub.js` with a time limit.

import { api, socket, words } from "./pages.js";
import "./calls.js";
import { Hubbub, HubbubError } from "./core.js";

const TIMEOUT = 8000; // ms until a call without a response counts as offline

// A link of an admin has a token that reads the numbers of a private site.
const token = new URLSearchParams(location.hash.slice(1)).get("token");
const authorized = token ? { Authorization: `Bearer ${token}` } : {};

export const createClient = () => new Hubbub(api, {
  socket: socket || undefined,
  fetch: (url, options) => fetch(url, { ...options, headers: { ...options.headers, ...authorized }, cache: "no-store", signal: AbortSignal.timeout(TIMEOUT) }),
});

/** Return whether the same call may succeed later. */
export const isTransient = (error) => error instanceof HubbubError && (!error.status || error.status >= 500 || error.status === 429);

/** Return the text of an error for the visitor, in the visitor's language. Its details are for the console. */
export function explain(error) {
  if (error instanceof HubbubError) console.warn(error.message);
  else console.error(error);
  return words.errors[error.code] ?? words.failed;
}
