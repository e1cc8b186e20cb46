// A chat that looks after its own connection: it asks for its status when it opens, looks again while it waits,
// and comes back to its partner after a cut, and before the cut that comes after two hours.

const HOURS = 3600_000;
const RENEW = 1.9 * HOURS; // API Gateway cuts a connection after two hours
const ALIVE = 4 * 60_000; // and one without a frame after ten minutes
const LOOK = 6_000; // while waiting: after five seconds anyone will do
const LONGEST_PAUSE = 15_000;
const KEPT = 20; // messages, for a report

export class Chat extends EventTarget {
  #url; #socket = null; #token = ""; #tries = 0; #timers = []; #left = false; #last = [];
  state = "offline";

  /**
   * `url` is the socket's address, with ?lobby= and ?interests= if wished. Events: state, message, typing,
   * update, error, and frame for each frame either way.
   */
  constructor(url) {
    super();
    this.#url = url;
    this.#open();
  }

  say(text) {
    if (this.#send({ action: "message", text })) this.#keep(text, true);
  }

  typing() { this.#send({ action: "typing" }); }
  subscribe(topic) { this.#send({ action: "subscribe", topic }); }
  unsubscribe(topic) { this.#send({ action: "unsubscribe", topic }); }

  next() { this.#move("next", "waiting"); }
  find() { this.#move("find", "waiting"); }
  leave() { this.#move("leave", "idle"); }

  /** Part for ever; the last messages go along, for whoever reads the report. */
  report(reason) {
    const messages = this.#last.slice(-KEPT);
    const bytes = () => new TextEncoder().encode(JSON.stringify(messages)).length;
    while (bytes() > 6000) messages.shift(); // a frame is 8,192 bytes at most, a reason 500 characters
    if (this.#send({ action: "report", reason, messages })) this.#become("waiting");
  }

  /** Close for good: nobody waits for this one. */
  close() {
    this.#left = true;
    this.#clear();
    this.#socket?.close(1000);
    this.#become("offline");
  }

  #move(action, state) {
    if (this.#send({ action })) this.#become(state);
  }

  #open() {
    const url = new URL(this.#url);
    if (this.#token) url.searchParams.set("resume", this.#token);
    const before = this.#socket;
    const socket = new WebSocket(url);
    socket.onopen = () => {
      this.#socket = socket;
      this.#tries = 0;
      before?.close(); // its place is ours now
      this.#send({ action: "status" });
      this.#send({ action: "resume" });
      this.#clear();
      this.#timers = [
        setTimeout(() => this.#open(), RENEW),
        setInterval(() => this.#send({ action: "ping" }), ALIVE),
        setInterval(() => this.state === "waiting" && this.#send({ action: "ping" }), LOOK),
      ];
    };
    socket.onmessage = ({ data }) => this.#hear(JSON.parse(data));
    socket.onclose = () => {
      if (this.#left || (this.#socket && this.#socket !== socket)) return;
      this.#clear();
      this.#socket = null;
      this.#become("offline");
      const pause = Math.min(500 * 2 ** this.#tries++, LONGEST_PAUSE);
      setTimeout(() => this.#left || this.#open(), pause);
    };
  }

  #hear(frame) {
    this.#tell("frame", { way: "HEAR", name: frame.code ?? frame.type });
    if (frame.type === "resume") this.#token = frame.token;
    else if (frame.type === "status") this.#become(frame.state);
    else if (frame.code === "partner_connected") this.#become("matched");
    else if (frame.code === "partner_disconnected") this.#become("waiting");
    else {
      if (frame.type === "message") this.#keep(frame.text, false);
      this.#tell(frame.type, frame);
    }
  }

  #become(state) {
    if (state === this.state) return;
    if (this.state === "matched" && state !== "offline") this.#last = [];
    this.state = state;
    this.#tell("state", state);
  }

  #tell(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }

  #keep(text, mine) {
    this.#last = [...this.#last, { text, mine }].slice(-KEPT);
  }

  #send(frame) {
    const open = this.#socket?.readyState === WebSocket.OPEN;
    if (open) {
      this.#socket.send(JSON.stringify(frame));
      this.#tell("frame", { way: "SEND", name: frame.action });
    }
    return open;
  }

  #clear() {
    this.#timers.forEach((timer) => { clearTimeout(timer); clearInterval(timer); });
    this.#timers = [];
  }
}
