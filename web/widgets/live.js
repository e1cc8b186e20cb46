// Live updates of a topic: over a socket if one is configured, otherwise by polling.

/**
 * Follow a topic. Call `changed` with each pushed value, and without a value when it should load: every `every` ms
 * while no socket is open and the page is visible. Return a function that stops.
 */
export function follow({ hub, topic, every, changed }) {
  let polls = 0;
  return hub.live(topic, (value) => {
    if (value || polls++) changed(value); // the widget itself has just loaded
  }, { every, poll: async () => {}, onError() {} });
}
