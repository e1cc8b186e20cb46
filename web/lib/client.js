// The dashboard's client of the API: `hubbub.js` with a time limit.

import { api, socket } from "./config.js";
import { Hubbub, HubbubError } from "./core.js";
import { words } from "./words.js";

const TIMEOUT = 8000; // ms until a call without a response counts as offline

export const createClient = () => new Hubbub(api, {
  socket: socket || undefined,
  fetch: (url, options) => fetch(url, { ...options, cache: "no-store", signal: AbortSignal.timeout(TIMEOUT) }),
});

/** Return whether the same call may succeed later. */
export const isTransient = (error) => error instanceof HubbubError && (!error.status || error.status >= 500 || error.status === 429);

/** Return the text of an error for the visitor. A bug in this code is also logged to the console. */
export function explain(error) {
  if (!(error instanceof HubbubError)) console.error(error);
  return error.code === "Offline" ? words.notResponding : error.code === "BadResponse" ? words.status(error.status) : error.message;
}
