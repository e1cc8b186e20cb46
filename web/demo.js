// Something to look at, on one machine: the local server fills a site, a board, a challenge and a product.

import { api, isLocal } from "./config.js";
import { html, nothing } from "./vendor/lit.js";

const FILLS = 15; // seconds in which to look for it again and again

export const changes = new EventTarget();
let isFilling = false;

export function demoButton() {
  if (!isLocal) return nothing;
  return html`<button type="button" class="primary" ?disabled=${isFilling} @click=${fill}>
    ${isFilling ? "Filling …" : "Fill all panels with demo data"}</button>`;
}

async function fill() {
  isFilling = true;
  const headers = { "Content-Type": "application/json" };
  await fetch(`${api}local/demo`, { method: "POST", headers, body: "{}" }).catch(() => {}); // the panels say it
  for (let second = 0; second < FILLS; second += 1) {
    changes.dispatchEvent(new Event("change"));
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
  isFilling = false;
  changes.dispatchEvent(new Event("change"));
}
