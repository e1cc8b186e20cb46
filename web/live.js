// What changes, as it changes: a topic's updates come over a socket, and while there is none, by asking.

import { Chat } from "./chat.js";
import { socket } from "./config.js";

const POLL = 2000; // ms between two looks while nothing is pushed
const CHECK = 8; // while it is, every so many looks one is taken all the same

const followers = new Map(); // by topic
let line = null, looks = 0;

export const changes = new EventTarget();

/** Tell whether updates are pushed now. */
export const isPushed = () => line !== null && line.state !== "offline";

/** Have a function called with each new value of a topic, or without one when it is time to ask. */
export function follow(topic, tell) {
  if (!followers.has(topic)) followers.set(topic, new Set());
  followers.get(topic).add(tell);
  if (isPushed()) line.subscribe(topic);
  // What changes between the first look and the subscription is pushed to nobody: so one more look.
  const again = setTimeout(tell, POLL);
  return () => {
    clearTimeout(again);
    followers.get(topic)?.delete(tell);
    if (followers.get(topic)?.size) return;
    followers.delete(topic);
    if (isPushed()) line.unsubscribe(topic);
  };
}

function listen() {
  const url = new URL(socket);
  url.searchParams.set("lobby", `page-${Math.random().toString(36).slice(2)}`); // alone: it is here to listen
  line = new Chat(url);
  let before = "offline";
  line.addEventListener("state", ({ detail }) => {
    const isNew = before === "offline";
    before = detail;
    if (isNew) {
      line.leave();
      for (const topic of followers.keys()) line.subscribe(topic);
      askAll(); // what has changed meanwhile
    }
    changes.dispatchEvent(new Event("change"));
  });
  line.addEventListener("update", ({ detail }) => {
    for (const tell of followers.get(detail.topic) ?? []) tell(detail.value);
  });
}

function askAll() {
  for (const tells of followers.values()) tells.forEach((tell) => tell());
}

setInterval(() => {
  looks += 1;
  if (!document.hidden && (!isPushed() || looks % CHECK === 0)) askAll();
}, POLL);
document.addEventListener("visibilitychange", () => document.hidden || askAll());
addEventListener("online", askAll);
addEventListener("pagehide", () => line?.close());
if (socket) listen();
