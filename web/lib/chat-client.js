// The client of the chat. It keeps its own connection: it requests its status when it opens, pings while it waits for
// a partner, and resumes with the same partner after a lost connection and before API Gateway's limit of two hours.

const HOUR = 3600_000; // ms
const RENEW_AFTER = 1.9 * HOUR; // API Gateway closes a connection after two hours
const KEEP_ALIVE = 4 * 60_000; // ms; API Gateway closes a connection after ten minutes without a frame
const WAITING_PING = 6_000; // ms; after five seconds of waiting any partner matches
const LONGEST_PAUSE = 15_000; // ms
const MOST_MESSAGES = 20; // in a report

export class ChatClient extends EventTarget {
  #url; #socket = null; #tries = 0; #timers = []; #isClosed = false; #messages = [];
  state = "offline";
  token = ""; // resumes this connection's place

  /**
   * `url` is the socket's address with the optional parameters lobby and interests, `token` resumes another
   * connection. Events: state, message, typing, update, error, and frame for each frame sent or received.
   */
  constructor(url, token = "") {
    super();
    this.#url = url;
    this.token = token;
    this.#open();
  }

  sendMessage(text) {
    if (this.#send({ action: "message", text })) this.#record(text, true);
  }

  sendTyping() { this.#send({ action: "typing" }); }
  subscribe(topic) { this.#send({ action: "subscribe", topic }); }
  unsubscribe(topic) { this.#send({ action: "unsubscribe", topic }); }

  next() { this.#request("next", "waiting"); }
  find() { this.#request("find", "waiting"); }
  leave() { this.#request("leave", "idle"); }

  /** Report the partner and leave it. The report contains the last messages. */
  report(reason) {
    const messages = this.#messages.slice(-MOST_MESSAGES);
    const bytes = () => new TextEncoder().encode(JSON.stringify(messages)).length;
    while (bytes() > 6000) messages.shift(); // a frame is 8,192 bytes at most, a reason 500 characters
    if (this.#send({ action: "report", reason, messages })) this.#setState("waiting");
  }

  /** Close the connection and do not reconnect. */
  close() {
    this.#isClosed = true;
    this.#clearTimers();
    this.#socket?.close(1000);
    this.#setState("offline");
  }

  /** Stop without giving up the place, before the page is unloaded. The browser then cuts the connection. */
  suspend() {
    this.#isClosed = true;
    this.#clearTimers();
  }

  #request(action, state) {
    if (this.#send({ action })) this.#setState(state);
  }

  #open() {
    const url = new URL(this.#url);
    if (this.token) url.searchParams.set("resume", this.token);
    const before = this.#socket;
    const socket = new WebSocket(url);
    socket.onopen = () => {
      this.#socket = socket;
      this.#tries = 0;
      before?.close(); // the new connection replaces it
      this.#send({ action: "status" });
      this.#send({ action: "resume" });
      this.#clearTimers();
      this.#timers = [
        setTimeout(() => this.#open(), RENEW_AFTER),
        setInterval(() => this.#send({ action: "ping" }), KEEP_ALIVE),
        setInterval(() => this.state === "waiting" && this.#send({ action: "ping" }), WAITING_PING),
      ];
    };
    socket.onmessage = ({ data }) => this.#receive(JSON.parse(data));
    socket.onclose = () => {
      if (this.#isClosed || (this.#socket && this.#socket !== socket)) return;
      this.#clearTimers();
      this.#socket = null;
      this.#setState("offline");
      const pause = Math.min(500 * 2 ** this.#tries++, LONGEST_PAUSE);
      setTimeout(() => this.#isClosed || this.#open(), pause);
    };
  }

  #receive(frame) {
    this.#emit("frame", { way: "RECV", name: frame.code ?? frame.type });
    if (frame.type === "resume") this.token = frame.token;
    else if (frame.type === "status") this.#setState(frame.state);
    else if (frame.code === "partner_connected") this.#setState("matched");
    else if (frame.code === "partner_disconnected") this.#setState("waiting");
    else {
      if (frame.type === "message") this.#record(frame.text, false);
      this.#emit(frame.type, frame);
    }
  }

  #setState(state) {
    if (state === this.state) return;
    if (this.state === "matched" && state !== "offline") this.#messages = [];
    this.state = state;
    this.#emit("state", state);
  }

  #emit(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }

  #record(text, mine) {
    this.#messages = [...this.#messages, { text, mine }].slice(-MOST_MESSAGES);
  }

  #send(frame) {
    const open = this.#socket?.readyState === WebSocket.OPEN;
    if (open) {
      this.#socket.send(JSON.stringify(frame));
      this.#emit("frame", { way: "SEND", name: frame.action });
    }
    return open;
  }

  #clearTimers() {
    this.#timers.forEach((timer) => { clearTimeout(timer); clearInterval(timer); });
    this.#timers = [];
  }
}
