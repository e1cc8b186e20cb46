// The client of the admin page. It calls only the API that served the page, so no link can redirect the token.

import "../lib/calls.js";
import { Hubbub, HubbubError } from "../lib/core.js";
import { words } from "./words.js";

const TIMEOUT = 10_000; // ms
const KEY = "hubbub.admin";

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

const hub = new Hubbub(new URL("..", location.href), {
  fetch: (url, options) => fetch(url, { ...options, cache: "no-store", signal: AbortSignal.timeout(TIMEOUT) }),
});

// The messages of these errors say which value was not accepted, and why.
const DETAILED = ["BadRequest", "Unprocessable", "Conflict"];

/** Return the text of an error in the admin's language. */
function explain({ code, message }) {
  const sentence = words.errors[code] ?? words.failed;
  return DETAILED.includes(code) ? `${sentence} (${message})` : sentence;
}

/**
 * Send a call of the client with the token, and return its body. Throws HubbubError with a text for the admin, and with
 * the `field` that was not accepted.
 */
export async function call(name, args) {
  hub.token = token.get();
  try {
    return await hub[name](args, { auth: true });
  } catch (error) {
    if ([401, 403].includes(error.status)) authorization.dispatchEvent(new CustomEvent("refused", { detail: error }));
    const field = error.message.match(/^`(\w+)/)?.[1];
    throw Object.assign(new HubbubError(error.code, explain(error), error), { field });
  }
}
