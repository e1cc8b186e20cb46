// Live updates: a topic's updates arrive over a socket, or by polling while the socket is not connected.

import { ChatClient } from "./chat-client.js";
import { socket } from "./config.js";

const POLL_INTERVAL = 2000; // ms
const CONNECTED_EVERY = 8; // while connected, one poll in this many is made as well

const listeners = new Map(); // sets of functions, by topic
let client = null, ticks = 0;

export const changes = new EventTarget();

/** Return whether updates are pushed now. */
export const isPushed = () => client !== null && client.state !== "offline";

/**
 * Call a function with each new value of a topic, and without a value when it should poll. Return a function that
 * unsubscribes.
 */
export function follow(topic, notify) {
  if (!listeners.has(topic)) listeners.set(topic, new Set());
  listeners.get(topic).add(notify);
  if (isPushed()) client.subscribe(topic);
  // A change between the first load and the subscription is not pushed, so poll once more.
  const again = setTimeout(notify, POLL_INTERVAL);
  return () => {
    clearTimeout(again);
    listeners.get(topic)?.delete(notify);
    if (listeners.get(topic)?.size) return;
    listeners.delete(topic);
    if (isPushed()) client.unsubscribe(topic);
  };
}

function connect() {
  const url = new URL(socket);
  // This connection never chats, so it gets a lobby of its own.
  url.searchParams.set("lobby", `page-${Math.random().toString(36).slice(2)}`);
  client = new ChatClient(url);
  let before = "offline";
  client.addEventListener("state", ({ detail }) => {
    const isNew = before === "offline";
    before = detail;
    if (isNew) {
      client.leave();
      for (const topic of listeners.keys()) client.subscribe(topic);
      pollAll(); // for changes while disconnected
    }
    changes.dispatchEvent(new Event("change"));
  });
  client.addEventListener("update", ({ detail }) => {
    for (const notify of listeners.get(detail.topic) ?? []) notify(detail.value);
  });
}

function pollAll() {
  for (const functions of listeners.values()) functions.forEach((notify) => notify());
}

setInterval(() => {
  ticks += 1;
  if (!document.hidden && (!isPushed() || ticks % CONNECTED_EVERY === 0)) pollAll();
}, POLL_INTERVAL);
document.addEventListener("visibilitychange", () => document.hidden || pollAll());
addEventListener("online", pollAll);
addEventListener("pagehide", () => client?.close());
if (socket) connect();
