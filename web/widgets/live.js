// Live updates of a topic: over a socket if one is configured, otherwise by polling.

const LONGEST_PAUSE = 30_000; // ms
const KEEP_ALIVE = 4 * 60_000; // ms; API Gateway closes a connection after ten minutes without a frame

/**
 * Follow a topic. Call `changed` with each pushed value, and without a value when it should load: when the socket
 * opens, and every `every` ms while no socket is open and the page is visible. Return a function that stops.
 */
export function follow({ socket, topic, every, changed }) {
  let connection = null, open = false, ended = false, tries = 0, timers = [];

  const poll = () => { if (!open && !document.hidden) changed(); };
  const polling = setInterval(poll, every);
  document.addEventListener("visibilitychange", poll);

  function connect() {
    if (ended) return;
    // A lobby of its own, because this connection never chats.
    const url = new URL(socket);
    url.searchParams.set("lobby", `listener-${Math.random().toString(36).slice(2)}`);
    connection = new WebSocket(url);
    const send = (frame) => connection.readyState === WebSocket.OPEN && connection.send(JSON.stringify(frame));
    connection.onopen = () => {
      send({ action: "leave" });
      send({ action: "subscribe", topic });
      [open, tries] = [true, 0];
      timers = [setInterval(send, KEEP_ALIVE, { action: "ping" })];
      changed();
    };
    connection.onmessage = ({ data }) => {
      const frame = JSON.parse(data);
      if (frame.type === "update" && frame.topic === topic) changed(frame.value);
    };
    connection.onclose = () => {
      timers.forEach(clearInterval);
      open = false;
      timers = [setTimeout(connect, Math.min(500 * 2 ** tries++, LONGEST_PAUSE))];
    };
  }

  if (socket) connect();
  return () => {
    ended = true;
    clearInterval(polling);
    timers.forEach((timer) => { clearInterval(timer); clearTimeout(timer); });
    document.removeEventListener("visibilitychange", poll);
    connection?.close(1000);
  };
}
