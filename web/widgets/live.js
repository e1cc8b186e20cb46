// A number that changes, followed: over the socket where there is one, else by asking again and again.

const LONGEST_PAUSE = 30_000; // ms
const ALIVE = 4 * 60_000; // API Gateway closes a connection after ten minutes without a frame

/**
 * Follow a topic. `changed` is called with each value that is pushed, and without one when it is time to ask:
 * at once after the socket has opened, and every `every` ms for as long as there is none. Answers a function
 * that ends it. While the page is hidden nobody asks.
 */
export function follow({ socket, topic, every, changed }) {
  let wire = null, open = false, ended = false, tries = 0, timers = [];

  const ask = () => { if (!open && !document.hidden) changed(); };
  const poll = setInterval(ask, every);
  document.addEventListener("visibilitychange", ask);

  function connect() {
    if (ended) return;
    // A lobby of its own: who listens is nobody's partner.
    const url = new URL(socket);
    url.searchParams.set("lobby", `listener-${Math.random().toString(36).slice(2)}`);
    wire = new WebSocket(url);
    const send = (frame) => wire.readyState === WebSocket.OPEN && wire.send(JSON.stringify(frame));
    wire.onopen = () => {
      send({ action: "leave" });
      send({ action: "subscribe", topic });
      [open, tries] = [true, 0];
      timers = [setInterval(send, ALIVE, { action: "ping" })];
      changed();
    };
    wire.onmessage = ({ data }) => {
      const frame = JSON.parse(data);
      if (frame.type === "update" && frame.topic === topic) changed(frame.value);
    };
    wire.onclose = () => {
      timers.forEach(clearInterval);
      open = false;
      timers = [setTimeout(connect, Math.min(500 * 2 ** tries++, LONGEST_PAUSE))];
    };
  }

  if (socket) connect();
  return () => {
    ended = true;
    clearInterval(poll);
    timers.forEach((timer) => { clearInterval(timer); clearTimeout(timer); });
    document.removeEventListener("visibilitychange", ask);
    wire?.close(1000);
  };
}
