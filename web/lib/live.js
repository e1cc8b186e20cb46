// Live updates: a topic's values arrive over a socket, or by polling while the socket is not connected.

import { createClient } from "./client.js";

const POLL_INTERVAL = 2000; // ms

const client = createClient();
const open = new Set(); // the connected topics, by their stop functions

export const changes = new EventTarget();

/** Return whether updates are pushed now. */
export const isPushed = () => open.size > 0;

/**
 * Call a function with the current value of a topic and again after each change, and without a value when it should
 * poll. Return a function that unsubscribes.
 */
export function follow(topic, notify) {
  let isFirst = true; // the caller has just loaded
  const state = {};
  const set = (isOpen) => {
    const before = isPushed();
    isOpen ? open.add(state) : open.delete(state);
    if (isPushed() !== before) changes.dispatchEvent(new Event("change"));
  };
  const POLLED = Symbol("polled");
  const stop = client.live(topic, (value) => value === POLLED || notify(value), {
    every: POLL_INTERVAL,
    onState: set,
    onError: () => set(false), // then it polls
    async poll() {
      if (!isFirst) notify();
      isFirst = false;
      return POLLED;
    },
  });
  return () => {
    stop();
    set(false);
  };
}
