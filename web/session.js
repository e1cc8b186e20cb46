// Who you are: a bearer token, kept for as long as the tab is open, for the API that it was given for.

import { api, isLocal } from "./config.js";

const KEY = `hubbub.token ${api}`;
const SOON = 60; // seconds before its end a token is taken for expired

export const changes = new EventTarget();
let token = "";

/** Your name, or "" as long as nobody has said who you are. */
export function you() {
  const { sub = "", exp = 0 } = claims(token);
  return exp - SOON > Date.now() / 1000 ? sub : "";
}

/** Answer the headers that say who you are. */
export function authorization() {
  return you() ? { Authorization: `Bearer ${token}` } : {};
}

/** Be who a token says; false when it says nobody. */
export function use(text) {
  const before = token;
  token = text.trim().replace(/^Bearer\s+/i, "");
  if (!you()) {
    token = before;
    return false;
  }
  keep(token);
  changes.dispatchEvent(new Event("change"));
  return true;
}

/** Be somebody of this name, where this machine gives tokens; throws when it does not. */
export async function become(name) {
  const options = {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ sub: name }),
  };
  const answer = await fetch(`${api}local/token`, options);
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.Message);
  use(body.token);
}

/** Be who you were in this tab, or on one machine a visitor with a new name. */
export async function enter() {
  if (use(keep() ?? "") || !isLocal) return;
  const digits = Array.from(crypto.getRandomValues(new Uint8Array(2)), (byte) => byte.toString(16).padStart(2, "0"));
  await become(`visitor-${digits.join("")}`).catch(() => {}); // then the page is for reading
}

function claims(text) {
  try {
    const base64 = text.split(".")[1].replace(/-/g, "+").replace(/_/g, "/");
    return JSON.parse(new TextDecoder().decode(Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0))));
  } catch {
    return {};
  }
}

// Where the browser forbids storage, a token is kept by this page alone.
function keep(text) {
  try {
    if (text === undefined) return sessionStorage.getItem(KEY);
    sessionStorage.setItem(KEY, text);
  } catch { /* nothing is kept */ }
  return null;
}
