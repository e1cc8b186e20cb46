// The visitor's bearer token. It is stored for as long as the tab is open, and only for the API it was entered for.

import { api, isLocal } from "./config.js";

const KEY = `hubbub.token ${api}`;
const MARGIN = 60; // seconds before its expiry a token counts as expired

export const changes = new EventTarget();
let current = "";

/** Return the name of the signed-in visitor, or "". */
export function userName() {
  const { sub = "", exp = 0 } = claims(current);
  return exp - MARGIN > Date.now() / 1000 ? sub : "";
}

/** Return the bearer token of the signed-in visitor, or "". */
export const token = () => (userName() ? current : "");

/** Sign in with a token. Return false when it is invalid or expired. */
export function useToken(text) {
  const before = current;
  current = text.trim().replace(/^Bearer\s+/i, "");
  if (!userName()) {
    current = before;
    return false;
  }
  stored(current);
  changes.dispatchEvent(new Event("change"));
  return true;
}

/** Sign in under a name with a token of the local server. Throws when it issues none. */
export async function signIn(name) {
  const options = {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ sub: name }),
  };
  const response = await fetch(`${api}local/token`, options);
  const body = await response.json();
  if (!response.ok) throw new Error(body.Message);
  useToken(body.token);
}

/** Restore the token of this tab, or sign in under a new name in a local run. */
export async function restore() {
  if (useToken(stored() ?? "") || !isLocal) return;
  const digits = Array.from(crypto.getRandomValues(new Uint8Array(2)), (byte) => byte.toString(16).padStart(2, "0"));
  await signIn(`visitor-${digits.join("")}`).catch(() => {}); // then the page is read-only
}

function claims(text) {
  try {
    const base64 = text.split(".")[1].replace(/-/g, "+").replace(/_/g, "/");
    return JSON.parse(new TextDecoder().decode(Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0))));
  } catch {
    return {};
  }
}

// Where the browser forbids storage, the token lasts until the page is closed.
function stored(text) {
  try {
    if (text === undefined) return sessionStorage.getItem(KEY);
    sessionStorage.setItem(KEY, text);
  } catch { /* the browser forbids storage */ }
  return null;
}
