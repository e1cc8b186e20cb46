// The demo button of a local run: the local server fills a site, a leaderboard, a challenge and a product.

import { api, isLocal } from "./config.js";
import { words } from "./words.js";
import { html, nothing } from "../vendor/lit.js";

const REFRESHES = 15; // one each second while the demo is being filled

export const changes = new EventTarget();
let isFilling = false;

export function demoButton() {
  if (!isLocal) return nothing;
  return html`<button type="button" id="fill" ?disabled=${isFilling} @click=${fill}>
    ${isFilling ? words.demo.filling : words.demo.fill}</button>`;
}

async function fill() {
  isFilling = true;
  const headers = { "Content-Type": "application/json" };
  await fetch(`${api}local/demo`, { method: "POST", headers, body: "{}" }).catch(() => {}); // the panels report the error
  for (let second = 0; second < REFRESHES; second += 1) {
    changes.dispatchEvent(new Event("change"));
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
  isFilling = false;
  changes.dispatchEvent(new Event("change"));
}
