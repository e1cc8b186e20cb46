// The signed-in visitor: a guest, or whoever a pasted token names. A pasted token is stored for as long as the tab is
// open, and only for the API it was entered for. The client keeps the guest.

import { readClaims } from "./claims.js";
import { api, allowsGuests, isLocal } from "./config.js";
import { Hubbub } from "./hubbub.js";
import { words } from "./words.js";

const KEY = `hubbub.token ${api}`;
const MARGIN = 60; // seconds before its expiry a token counts as expired

export const changes = new EventTarget();
const client = new Hubbub(api);
let current = "";

/** Return the identifier of the signed-in visitor, or "". */
export function userId() {
  const { sub = "", exp = 0 } = readClaims(current);
  return exp - MARGIN > Date.now() / 1000 ? sub : "";
}

/** Return the display name of the signed-in visitor, or "". */
export const userName = () => userId() && (readClaims(current).name || userId());

/** Return the bearer token of the signed-in visitor, or "". The guest of a stage whose secret has changed is replaced. */
export async function token(isRefused = false) {
  if (isRefused && client.guest?.token === current) await signInAsGuest(userName());
  return userId() ? current : "";
}

/** Sign in with a token. Return false when it is invalid or expired. */
export function useToken(text) {
  if (!use(text.trim().replace(/^Bearer\s+/i, ""))) return false;
  stored(current);
  return true;
}

/** Sign in as a new guest. Throws HubbubError. */
export async function signInAsGuest(name) {
  const guest = await client.signInAsGuest(name, { fresh: true });
  stored("");
  use(guest.token);
}

/** Restore the token of this tab or the guest of this browser. A local run signs in a new guest. */
export async function restore() {
  if (use(stored() ?? "") || use(client.guest?.token ?? "") || !isLocal || !allowsGuests) return;
  const digits = Array.from(crypto.getRandomValues(new Uint8Array(2)), (byte) => byte.toString(16).padStart(2, "0"));
  await signInAsGuest(words.signIn.visitor(digits.join(""))).catch(() => {}); // then the page is read-only
}

function use(text) {
  const before = current;
  current = text;
  if (!userId()) {
    current = before;
    return false;
  }
  changes.dispatchEvent(new Event("change"));
  return true;
}

// Where the browser forbids storage, the token lasts until the page is closed.
function stored(text) {
  try {
    if (text === undefined) return sessionStorage.getItem(KEY);
    text ? sessionStorage.setItem(KEY, text) : sessionStorage.removeItem(KEY);
  } catch { /* the browser forbids storage */ }
  return null;
}
