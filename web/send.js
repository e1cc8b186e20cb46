// Views to send, and how long it takes until they count.

import { call, get } from "./calls.js";
import { plural } from "./words.js";

const VISIBLE_WITHIN = 10_000; // ms
const PAUSE = 20; // ms between two looks at the count

const WHY = {
  bot: "this browser names itself as a crawler does",
  site_not_allowed: "this stage does not count that site",
  in_the_future: "this machine’s clock is ahead of the server’s",
  too_old: "this machine’s clock is behind the server’s",
  bad_url: "that is not the address of a page",
};

/**
 * Post views of a page, each of another client, and measure the time from the POST until the page's count has
 * them. Answers the page in the API's notation, and what to say. Views that others send meanwhile count too.
 */
export async function send(address, clients, say) {
  const { url, views: before } = await get("/views", { url: address });
  const time = new Date().toISOString();
  const events = Array.from({ length: clients }, () => ({ url, time, clientId: newClient() }));
  const began = performance.now();
  const { accepted, rejected } = await call("POST", "/views", { body: clients === 1 ? events[0] : { events } });
  if (!accepted) return { url, text: `Not counted: ${WHY[rejected[0].reason] ?? rejected[0].reason}.` };
  say(`${plural(accepted, "view")} taken, not yet counted …`);
  while (performance.now() - began < VISIBLE_WITHIN) {
    const { views } = await get("/views", { url });
    const took = Math.round(performance.now() - began);
    if (views >= before + accepted) {
      return { url, text: `${plural(accepted, "view")} counted: visible ${took} ms after the POST.` };
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
  return { url, text: "Taken, but not counted after 10 s: is the table’s stream being read?" };
}

// crypto.randomUUID is there on https and localhost alone.
function newClient() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
